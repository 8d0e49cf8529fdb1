"""C2 and C3: what a cache holds, loop by loop, and that a recurrence's does not grow."""

import itertools
from collections.abc import Iterator

import torch
from flint import fmpq

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.cache import LoopCache
from proofs_checks.claim import Claim, Finding, claim

_HEADS, _KEYS, _VALUES, _TAPS, _WINDOW = 2, 4, 6, 3, 5
_BYTES = {torch.bfloat16: 2, torch.float32: 4, torch.float64: 8}


@claim(
    "C2",
    "bytes of the models' caches",
    statement=(
        "After L tokens the cache holds, all times T: keys and values of L tokens for softmax and "
        "of min(L, w) for windows, a matrix state a head for linear mixers, and c - 1 inputs of "
        "each convolution."
    ),
    conditions=(
        "one slot a (layer, loop); a window's own token is in the cache only while it is being "
        "processed: between tokens min(L, w - 1) are kept; states and convolutions in at least "
        "float32"
    ),
    scope=(
        "full, window, linear_attention, deltanet, gdn, kda and gdn,window; rescan and accumulate; "
        "T = 1..3; bfloat16, float32, float64; L up to 12 through LoopedModel.new_cache"
    ),
    source="derivation; lt2theory.models.cache",
    evidence="exact",
    expected="holds_with_conditions",
    mutants={
        "one slot a layer": {"loops_of_slots": 1},
        "w tokens between tokens": {"kept_of_window": _WINDOW},
        "c inputs of a convolution": {"kept_of_convolution": _TAPS},
        "states as narrow as the model": {"least_bytes": 2},
    },
)
def bytes_held(
    *,
    fast: bool,
    loops_of_slots: int | None = None,
    kept_of_window: int = _WINDOW - 1,
    kept_of_convolution: int = _TAPS - 1,
    least_bytes: int = 4,
) -> Finding:
    """Byte for byte, fed token by token and in two calls; storage is counted as well as entries."""
    for name, state, num_loops, dtype in _instances(fast):
        model = _model(name, state, num_loops, dtype)
        for cuts in ((1, 4, 7), (12,)):
            cache = model.new_cache(2)
            for tokens in cuts:
                _feed(model, cache, tokens)
                told = 0
                for mixer in name.split(","):
                    narrow, wide = _BYTES[dtype], max(_BYTES[dtype], least_bytes)
                    if mixer in ("full", "window"):
                        seen = cache.length
                        kept = seen if mixer == "full" else min(seen, kept_of_window)
                        told += narrow * kept * _HEADS * (_KEYS + _VALUES)
                        continue
                    told += wide * _HEADS * _KEYS * _VALUES
                    if mixer != "linear_attention":
                        told += wide * kept_of_convolution * _HEADS * (2 * _KEYS + _VALUES)
                told *= 2 * (loops_of_slots or num_loops)
                if not told == cache.num_bytes() == _storage(cache):
                    said = f"{name}, {state}, T = {num_loops}, {dtype}, L = {cache.length}: "
                    return Finding(False, counterexample=f"{said}{cache.num_bytes()}, not {told}")
    return Finding(True, scope="all mixers; T = 1, 3; float32 and bfloat16" if fast else None)


def _instances(fast: bool) -> Iterator[tuple[str, str, int, torch.dtype]]:
    for name in (*MIXERS, "gdn,window"):
        linear = any(issubclass(MIXERS[mixer], LinearMixer) for mixer in name.split(","))
        states = ("rescan", "accumulate") if linear else ("rescan",)
        dtypes = (torch.float32, torch.bfloat16) if fast else tuple(_BYTES)
        for dtype in dtypes:
            yield from itertools.product((name,), states, (1, 3) if fast else (1, 2, 3), (dtype,))


def _model(name: str, loop_state: str, num_loops: int, dtype: torch.dtype) -> LoopedModel:
    sizes = {"width": 8, "num_heads": _HEADS, "head_dim": _KEYS, "value_dim": _VALUES}
    chosen = {"pattern": name, "loop_state": loop_state, "num_loops": num_loops, "ffn_width": 0}
    more = {"num_layers": len(name.split(",")), "conv_width": _TAPS, "window": _WINDOW}
    return LoopedModel(LoopedConfig.model_validate({**sizes, **chosen, **more})).to(dtype)


def _feed(model: LoopedModel, cache: LoopCache, length: int) -> None:
    with torch.no_grad():
        model(torch.zeros(2, length, dtype=torch.int64), cache)


def _storage(cache: LoopCache) -> int:
    """Bytes that the tensors keep alive: a view keeps all of what it looks at."""
    held = [x for slot in cache.slots.values() for x in vars(slot).values() if x is not None]
    return sum(storage.nbytes() for storage in {x.untyped_storage() for x in held})


@claim(
    "C2",
    "entries of NSA's and DSA's caches",
    statement=(
        "NSA keeps the keys and values of all L tokens and L/l compressed pairs; DSA keeps those "
        "of all L and as many keys of its indexer; a window keeps min(L, w); all of it T times."
    ),
    conditions=(
        "L/l rounded down: a block is compressed when it is complete; at least one block or token "
        "is selected by content; min(L, w) counts the token in work"
    ),
    scope=(
        "every L <= 40, l <= 6, w <= 6, T <= 3, with the entries that some later query may use "
        "found one by one; by formula only: the toolkit has no NSA or DSA yet"
    ),
    source="derivation; NSA, arXiv 2502.11089",
    evidence="exact",
    expected="holds_with_conditions",
    mutants={
        "nothing is selected": {"selected": 0},
        "blocks compressed when they begin": {"complete": False},
        "w tokens beside the one in work": {"beside": 1},
        "one cache for all loops": {"shared": True},
    },
)
def sparse_entries(
    *, fast: bool, selected: int = 1, complete: bool = True, beside: int = 0, shared: bool = False
) -> Finding:
    """What may be read again is kept, and nothing else.

    That is a token of a block that can be selected, of the window, or of a block that is still to
    be compressed; and every compressed pair.
    """
    longest = 15 if fast else 40
    sizes = itertools.product(range(1, longest + 1), range(1, 7), range(1, 7), (1, 2, 3))
    for length, block, window, loops in sizes:
        slots = range(1 if shared else loops)
        told = {"nsa": length + length // block, "dsa": 2 * length, "window": min(length, window)}
        seen = dict.fromkeys(told, 0)
        for _ in slots:
            ends = length if complete else length + block - 1
            # The last token is in work; the next one sees w - 1 of those before it and itself.
            near = {i for i in range(length) if i >= length - window - beside}
            pending = {i for i in range(length) if i // block == length // block}
            chosen = set(range(length)) if selected else set()
            seen["nsa"] += len(near | pending | chosen) + ends // block
            seen["dsa"] += len(chosen) + length
            seen["window"] += len(near)
        if seen != {name: loops * count for name, count in told.items()}:
            said = f"L = {length}, l = {block}, w = {window}, T = {loops}: {seen}"
            return Finding(False, counterexample=said)
    return Finding(True, scope=f"L <= {longest}, l, w <= 6, T <= 3; by formula only")


@claim(
    "C2",
    "one state is enough under token_carry only",
    statement=(
        "Between tokens token_carry needs one matrix state for all T loops. Under rescan the last "
        "loop's state does not determine what follows: each loop's own is needed."
    ),
    conditions="no short convolution, whose inputs differ from loop to loop in every semantics",
    scope=(
        "one channel, q = k = 1, beta = 1/2, loop tau writes the token plus loop tau-1's output; "
        "T = 2, 3; all histories of up to 4 tokens out of 0..3, and each next token"
    ),
    source="derivation",
    evidence="exact",
    mutants={
        "rescan keeps one state": {"one_state": "rescan"},
        "a convolution": {"taps": 2},
    },
)
def one_state(*, fast: bool, one_state: str = "token_carry", taps: int = 1) -> Finding:
    """Histories with the same kept numbers must be alike afterwards; under rescan some are not."""
    longest = 3 if fast else 4
    for loops in (2, 3):
        enough = _determined(one_state, loops, longest, all_states=False, taps=taps)
        each = _determined("rescan", loops, longest, all_states=True)
        last = _determined("rescan", loops, longest, all_states=False)
        if enough is not None or each is not None or last is None:
            return Finding(False, counterexample=enough or each)
    return Finding(True, scope=f"T = 2, 3; histories of up to {longest} tokens" if fast else None)


def _determined(
    semantics: str, loops: int, longest: int, *, all_states: bool, taps: int = 1
) -> str | None:
    """Two histories that agree in what is kept and differ in the next output, or None."""
    known: dict[tuple[object, ...], tuple[tuple[int, ...], fmpq]] = {}
    for length in range(1, longest + 1):
        for history in itertools.product(range(4), repeat=length):
            states = [fmpq(0)] * loops
            past = 0
            for token in history:
                states, _ = _token(semantics, states, token + (taps - 1) * past)
                past = token
            for following in range(4):
                _, output = _token(semantics, states, following + (taps - 1) * past)
                kept = tuple(str(x) for x in (states if all_states else states[-1:]))
                other, theirs = known.setdefault((kept, following), (history, output))
                if theirs != output:
                    return f"after {other} and {history} the token {following} gives other outputs"
    return None


def _token(semantics: str, states: list[fmpq], token: int) -> tuple[list[fmpq], fmpq]:
    """All loops on one token: the states after it (one repeated under token_carry), the output."""
    output, after = fmpq(0), []
    state = states[-1]
    for own in states:
        state = ((state if semantics == "token_carry" else own) + token + output) / 2
        output = state
        after.append(state)
    return (after[-1:] * len(states) if semantics == "token_carry" else after), output


@claim(
    "C3",
    "decode memory of the linear mixers does not grow",
    statement="From the first token on, the cache of a model of linear mixers has a fixed size.",
    conditions="every layer is linear; an attention layer's cache grows, a window's up to w",
    scope=(
        "linear_attention, deltanet, gdn, kda, gdn,kda; rescan and accumulate; T = 1, 3; L = 1..40 "
        "token by token through LoopedModel.new_cache; entries and storage"
    ),
    source="derivation; lt2theory.models.cache",
    evidence="exact",
    mutants={
        "a softmax layer": {"patterns": ("gdn,full",)},
        "a window layer that is not full yet": {"patterns": ("gdn,window",)},
        "the empty cache counted": {"first": 0},
    },
)
def fixed_size(
    *,
    fast: bool,
    patterns: tuple[str, ...] = ("linear_attention", "deltanet", "gdn", "kda", "gdn,kda"),
    first: int = 1,
) -> Finding:
    """The size after every token must be that after the first."""
    longest = 8 if fast else 40
    for name, state, loops in itertools.product(patterns, ("rescan", "accumulate"), (1, 3)):
        model = _model(name, state, loops, torch.float32)
        cache = model.new_cache(2)
        sizes = [] if first else [(0, 0)]
        for _ in range(longest):
            _feed(model, cache, 1)
            sizes.append((cache.num_bytes(), _storage(cache)))
        if len(set(sizes)) > 1:
            said = f"{name}, {state}, T = {loops}: bytes {[b for b, _ in sizes[:8]]}"
            return Finding(False, counterexample=said)
    return Finding(True, scope=f"L = 1..{longest}" if fast else None)


CLAIMS: tuple[Claim, ...] = (bytes_held, sparse_entries, one_state, fixed_size)
