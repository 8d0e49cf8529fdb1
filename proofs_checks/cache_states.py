"""C2 and C3: how many states must be kept between tokens, and that they do not grow."""

import itertools

import torch
from flint import fmpq, fmpq_mat

from proofs_checks.cache_models import LINEAR, feed, model_of, storage
from proofs_checks.claim import Claim, Finding, claim


@claim(
    "C2",
    "one state is enough under token_carry only",
    statement=(
        "Between tokens token_carry needs one matrix state for all T loops. Under rescan the last "
        "loop's state does not determine what follows, nor do those of all loops but one: each "
        "loop's own is needed."
    ),
    scope=(
        "one channel, q = k = 1, beta = 1/2, loop tau writes the token plus loop tau-1's output; "
        "T = 2, 3; all histories of up to 4 tokens out of 0..3, and each next token; that none can "
        "be left out for all histories of T rational tokens"
    ),
    source="derivation",
    evidence="exact",
    hypotheses={
        "no short convolution": {"a convolution": {"taps": 2}},
        "T >= 2": {"one loop": {"fewest_loops": 1}},
        "writes that leave something of the state, beta |k|^2 != 1": {
            "beta = 1 with a unit key": {"kept_share": 0}
        },
    },
    where="the inputs of a convolution differ from loop to loop in every semantics",
    mutants={"rescan keeps one state": {"one_state": "rescan"}},
)
def one_state(
    *,
    fast: bool,
    taps: int = 1,
    fewest_loops: int = 2,
    kept_share: int = 1,
    one_state: str = "token_carry",
) -> Finding:
    """Histories with the same kept numbers must be alike afterwards; under rescan some are not."""
    longest = 3 if fast else 4
    for loops in range(fewest_loops, 4):
        last = slice(loops - 1, loops)
        enough = _determined(one_state, loops, longest, last, kept_share, taps=taps)
        each = _determined("rescan", loops, longest, slice(loops), kept_share)
        too_few = _determined("rescan", loops, longest, last, kept_share)
        if enough or each or too_few is None or not _none_to_spare(loops, kept_share):
            return Finding(False, counterexample=enough or each or f"T = {loops}")
    return Finding(True, scope=f"T = 2, 3; histories of up to {longest} tokens" if fast else None)


def _determined(
    semantics: str, loops: int, longest: int, kept: slice, share: int, *, taps: int = 1
) -> str | None:
    """Two histories that agree in what is kept and differ in the next output, or None."""
    known: dict[tuple[object, ...], tuple[tuple[int, ...], fmpq]] = {}
    for length in range(1, longest + 1):
        for history in itertools.product(range(4), repeat=length):
            states = [fmpq(0)] * loops
            past = 0
            for token in history:
                states, _ = _token(semantics, states, token + (taps - 1) * past, share)
                past = token
            for following in range(4):
                _, output = _token(semantics, states, following + (taps - 1) * past, share)
                seen = tuple(str(x) for x in states[kept])
                other, theirs = known.setdefault((seen, following), (history, output))
                if theirs != output:
                    return f"after {other} and {history} the token {following} gives other outputs"
    return None


def _none_to_spare(loops: int, share: int) -> bool:
    """Whether under rescan no state follows from the others and each changes the next output.

    Both are linear in the tokens: T tokens must reach T independent vectors of states.
    """
    reached, output = [], True
    states = _token("rescan", [fmpq(0)] * loops, 1, share)[0]
    for loop in range(loops):
        reached.append(states)
        states, _ = _token("rescan", states, 0, share)
        alone = [fmpq(int(i == loop)) for i in range(loops)]
        output = output and _token("rescan", alone, 0, share)[1] != 0
    return output and fmpq_mat(reached).rank() == loops


def _token(semantics: str, states: list[fmpq], token: int, share: int) -> tuple[list[fmpq], fmpq]:
    """All loops on one token: the states after it (one repeated under token_carry), the output.

    Of the state before, `share` halves are kept, and the rest is what is written.
    """
    output, after = fmpq(0), []
    state = states[-1]
    for own in states:
        before = state if semantics == "token_carry" else own
        state = (share * before + (2 - share) * (token + output)) / 2
        output = state
        after.append(state)
    return (after[-1:] * len(states) if semantics == "token_carry" else after), output


@claim(
    "C3",
    "decode memory of the linear mixers does not grow",
    statement="The cache of a model of linear mixers has a fixed size, whatever the length.",
    scope=(
        f"{', '.join(LINEAR)} and gdn,kda; rescan and accumulate; T = 1, 3; L = 1..40 "
        "token by token through LoopedModel.new_cache; entries and storage"
    ),
    source="derivation; lt2theory.models.cache",
    evidence="exact",
    hypotheses={
        "every layer is linear": {
            "a softmax layer": {"patterns": ("gdn,full",)},
            "a window layer that is not full yet": {"patterns": ("gdn,window",)},
        },
        "from the first token on": {"the empty cache counted": {"first": 0}},
    },
    where="an attention layer's cache grows, a window's up to w",
)
def fixed_size(
    *,
    fast: bool,
    patterns: tuple[str, ...] = (*LINEAR, "gdn,kda"),
    first: int = 1,
) -> Finding:
    """The size after every token must be that after the first."""
    longest = 8 if fast else 40
    for name, state, loops in itertools.product(patterns, ("rescan", "accumulate"), (1, 3)):
        model = model_of(name, state, loops, torch.float32)
        cache = model.new_cache(2)
        sizes = [] if first else [(0, 0)]
        for _ in range(longest):
            feed(model, cache, 1)
            sizes.append((cache.num_bytes(), storage(cache)))
        if len(set(sizes)) > 1:
            said = f"{name}, {state}, T = {loops}: bytes {[b for b, _ in sizes[:8]]}"
            return Finding(False, counterexample=said)
    return Finding(True, scope=f"L = 1..{longest}" if fast else None)


CLAIMS: tuple[Claim, ...] = (one_state, fixed_size)
