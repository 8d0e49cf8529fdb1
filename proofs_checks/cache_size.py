"""C2: what a cache holds, loop by loop."""

import itertools
from collections.abc import Iterator

import torch

from proofs_checks.cache_models import (
    FACTORS,
    HEADS,
    INDEX,
    KEYS,
    LINEAR,
    TAPS,
    VALUES,
    WINDOW,
    feed,
    model_of,
    storage,
)
from proofs_checks.claim import Claim, Finding, claim

_BYTES = {torch.bfloat16: 2, torch.float32: 4, torch.float64: 8}


@claim(
    "C2",
    "bytes of the models' caches",
    statement=(
        "After L tokens the cache holds, all times T since every (layer, loop) has a slot of its "
        "own: keys and values of L tokens for softmax, NSA and DSA (which adds a key of its "
        "indexer a token) and of min(L, w - 1) for windows; and, in at least float32, a matrix "
        "state a head for linear mixers (mLSTM: with a normaliser and a stabiliser) and c - 1 "
        "inputs of each convolution: of q and of every factor's k and v a head; of "
        "Mamba2's x a head and its B and C once; none in linear attention and mLSTM."
    ),
    scope=(
        f"full, window, nsa, dsa, {', '.join(LINEAR)} and gdn,window; rescan and accumulate; "
        "T = 1..3; bfloat16, float32, float64; L up to 12 through LoopedModel.new_cache"
    ),
    source="derivation; lt2theory.models.cache",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "between tokens": {"with the token in work, which is in its window": {"in_work": 1}},
    },
    where="while a token is being processed a window has min(L, w)",
    mutants={
        "one slot a layer": {"loops_of_slots": 1},
        "c inputs of a convolution": {"kept_of_convolution": TAPS},
        "states as narrow as the model": {"least_bytes": 2},
    },
)
def bytes_held(
    *,
    fast: bool,
    in_work: int = 0,
    loops_of_slots: int | None = None,
    kept_of_convolution: int = TAPS - 1,
    least_bytes: int = 4,
) -> Finding:
    """Byte for byte, fed token by token and in two calls; storage is counted as well as entries."""
    for name, state, num_loops, dtype in _instances(fast):
        model = model_of(name, state, num_loops, dtype)
        for cuts in ((1, 4, 7), (12,)):
            cache = model.new_cache(2)
            for tokens in cuts:
                feed(model, cache, tokens)
                told = 0
                for mixer in name.split(","):
                    narrow, wide = _BYTES[dtype], max(_BYTES[dtype], least_bytes)
                    if mixer not in LINEAR:
                        seen = cache.length
                        kept = min(seen, WINDOW - 1 + in_work) if mixer == "window" else seen
                        indexed = INDEX if mixer == "dsa" else 0
                        told += narrow * kept * (HEADS * (KEYS + VALUES) + indexed)
                        continue
                    told += wide * (_state(mixer) + kept_of_convolution * _convolved(mixer))
                told *= 2 * (loops_of_slots or num_loops)
                if not told == cache.num_bytes() == storage(cache):
                    said = f"{name}, {state}, T = {num_loops}, {dtype}, L = {cache.length}: "
                    return Finding(False, counterexample=f"{said}{cache.num_bytes()}, not {told}")
    return Finding(True, scope="all mixers; T = 1, 3; float32 and bfloat16" if fast else None)


def _state(mixer: str) -> int:
    """Entries of the states of a linear mixer."""
    normaliser_and_maximum = KEYS + 1 if mixer == "mlstm" else 0
    return HEADS * (KEYS * VALUES + normaliser_and_maximum)


def _convolved(mixer: str) -> int:
    """Channels of the short convolution of a linear mixer."""
    if mixer in ("linear_attention", "mlstm"):
        return 0
    if mixer == "mamba2":
        return HEADS * VALUES + 2 * KEYS
    factors = FACTORS if mixer == "gated_deltaproduct" else 1
    return HEADS * (KEYS + factors * (KEYS + VALUES))


def _instances(fast: bool) -> Iterator[tuple[str, str, int, torch.dtype]]:
    for name in ("full", "window", "nsa", "dsa", *LINEAR, "gdn,window"):
        linear = any(mixer in LINEAR for mixer in name.split(","))
        states = ("rescan", "accumulate") if linear else ("rescan",)
        dtypes = (torch.float32, torch.bfloat16) if fast else tuple(_BYTES)
        for dtype in dtypes:
            yield from itertools.product((name,), states, (1, 3) if fast else (1, 2, 3), (dtype,))


@claim(
    "C2",
    "entries of NSA's and DSA's caches",
    statement=(
        "NSA keeps the keys and values of all L tokens and L/l compressed pairs; DSA keeps those "
        "of all L and as many keys of its indexer; a window keeps min(L, w); all of it T times."
    ),
    scope=(
        "every L <= 40, l <= 6, w <= 6, T <= 3, with the entries that some later query may use "
        "found one by one; by formula: lt2theory's NSA keeps no compressed pairs and pools them "
        "again at every call"
    ),
    source="derivation; NSA, arXiv 2502.11089",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "a block is compressed when it is complete (L/l is rounded down)": {
            "blocks compressed when they begin": {"complete": False}
        },
        "at least one block or token is selected by content": {
            "nothing is selected": {"selected": 0}
        },
        "the token in work is one of a window's w": {
            "w tokens beside the one in work": {"beside": 1}
        },
        "every loop has a cache of its own": {"one cache for all loops": {"shared": True}},
    },
)
def sparse_entries(
    *, fast: bool, complete: bool = True, selected: int = 1, beside: int = 0, shared: bool = False
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
    return Finding(True, scope=f"L <= {longest}, l, w <= 6, T <= 3; by formula")


CLAIMS: tuple[Claim, ...] = (bytes_held, sparse_entries)
