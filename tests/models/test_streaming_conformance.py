"""Streaming equals the parallel form, in float64, for every entry of the table of mixers.

Each mixer runs alone with one loop and with two, and together with Gated DeltaNet with two,
rescanning and (where a layer is linear) accumulating; with short convolutions, rotary positions,
grouped key heads, and windows, blocks and selections that are much shorter than the sequence.
"""

import functools
import itertools
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import MIXERS, LinearMixer, Slot
from lt2theory.models import LoopCache, LoopedConfig, LoopedModel

TOLERANCE = 1e-10  # float64; only the order of sums differs
LENGTH = 13

SIZES = {
    "width": 8,
    "num_heads": 2,
    "num_kv_heads": 1,
    "ffn_width": 8,
    "vocab_size": 7,
    "conv_width": 3,
    "window": 3,
    "block_size": 2,
    "num_blocks": 2,
    "top_k": 3,
    "index_heads": 2,
    "index_dim": 2,
    "positions": "rope",
}


class Case(NamedTuple):
    pattern: str
    num_loops: int
    loop_state: str

    def __str__(self) -> str:
        return f"{self.pattern}-{self.num_loops}-{self.loop_state}"

    @property
    def has_state(self) -> bool:
        return any(issubclass(MIXERS[name], LinearMixer) for name in self.pattern.split(","))


def cases() -> list[Case]:
    patterns = [*MIXERS, *(f"{name},gdn" for name in MIXERS if name != "gdn"), "full,window"]
    found = [Case("kda", 3, "rescan"), Case("window,gdn", 3, "accumulate")]
    for pattern in patterns:
        found += [Case(pattern, loops, "rescan") for loops in ((2,) if "," in pattern else (1, 2))]
        accumulate = Case(pattern, 2, "accumulate")
        found += [accumulate] if accumulate.has_state else []
    return found


CASES = cases()


every_case = pytest.mark.parametrize("case", CASES, ids=str)
looped = pytest.mark.parametrize("case", [c for c in CASES if c.num_loops > 1], ids=str)


@functools.cache
def model_of(case: Case) -> LoopedModel:
    """A model with every parameter well away from its start, so that every part matters."""
    fields = {**SIZES, **case._asdict(), "num_layers": len(case.pattern.split(","))}
    model = LoopedModel(LoopedConfig.model_validate(fields)).double().requires_grad_(False)
    noise = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn(parameter.shape, generator=noise, dtype=torch.float64)
    return model


def draw(length: int = LENGTH, seed: int = 7) -> Tensor:
    return torch.randint(7, (3, length), generator=torch.Generator().manual_seed(seed))


def feed(model: LoopedModel, cache: LoopCache, tokens: Tensor, cuts: list[int]) -> Tensor:
    bounds = itertools.pairwise([0, *cuts, tokens.shape[1]])
    return torch.cat([model(tokens[:, start:stop], cache) for start, stop in bounds], 1)


def same(got: Tensor, want: Tensor) -> None:
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)


@every_case
def test_random_pieces_then_decode(case: Case) -> None:
    """Cuts drawn with repetitions, so that pieces of one token and of none are among them."""
    model, tokens = model_of(case), draw()
    generator = torch.Generator().manual_seed(CASES.index(case))
    cuts = sorted(torch.randint(9, (5,), generator=generator).tolist())
    cache = model.new_cache(3)
    same(feed(model, cache, tokens, [*cuts, cuts[-1], *range(9, LENGTH)]), model(tokens))
    assert cache.length == LENGTH


@every_case
def test_left_padding_is_each_row_alone(case: Case) -> None:
    model, tokens, lengths = model_of(case), draw(), [9, 1, 5]
    cache = model.new_cache(3)
    padded = model(tokens[:, :9], cache, lengths=torch.tensor(lengths))
    padded = torch.cat([padded, feed(model, cache, tokens[:, 9:], [1, 3])], 1)
    assert torch.isfinite(padded).all()
    for row, length in enumerate(lengths):
        same(padded[row, 9 - length :], model(tokens[row : row + 1, 9 - length :])[0])


DOCUMENTS = torch.tensor(
    [[5] * 4 + [2] + [9] * 8, [-1] * 2 + [0] * 6 + [-1] + [0] * 4, [1] * 3 + [0] + [1] * 9]
)


@every_case
@pytest.mark.parametrize("cuts", [[], [2, 7, 8]], ids=["whole", "pieces"])
def test_packed_documents_are_each_alone(case: Case, cuts: list[int]) -> None:
    """Borders inside a piece, at its edge, behind padding, around a document of one token.

    A number that comes again, as near as a convolution or a window reaches, is another document.
    """
    model, tokens = model_of(case), draw()
    cache = model.new_cache(3)
    parts = [
        model(tokens[:, a:b], cache, documents=DOCUMENTS[:, a:b])
        for a, b in itertools.pairwise([0, *cuts, LENGTH])
    ]
    packed = torch.cat(parts, 1)
    assert torch.isfinite(packed).all()
    for row, bounds in enumerate(([0, 4, 5, 13], [2, 8, 9, 13], [0, 3, 4, 13])):
        for start, stop in itertools.pairwise(bounds):
            if DOCUMENTS[row, start] >= 0:
                same(packed[row, start:stop], model(tokens[row : row + 1, start:stop])[0])


@every_case
def test_no_future_token_is_seen(case: Case) -> None:
    """Also not by the choice of blocks or keys, nor by the number of the tokens to come."""
    model, tokens = model_of(case), draw()
    changed = torch.cat([tokens[:, :7], draw(seed=8)[:, 7:]], 1)
    changed[:, 7] = (tokens[:, 7] + 1) % 7
    before, after = model(tokens), model(changed)
    # Sums are grouped by blocks that do not depend on content, so the past is identical.
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7], after[:, 7])
    same(model(tokens[:, :7]), before[:, :7])


@every_case
def test_copies_and_rows_go_their_own_way(case: Case) -> None:
    model, tokens, other = model_of(case), draw(), draw(seed=9)
    lengths = torch.tensor([6, 3, 5])
    cache = model.new_cache(3, snapshot_every=4)
    model(tokens[:, :6], cache, lengths=lengths)
    fork, beams = cache.copy(), cache.copy()
    for slot in cache.copy().slots.values():
        for x in slot.tensors().values():
            x.fill_(7.0)  # a copy has tensors of its own
    rows = torch.tensor([2, 0, 0, 1, 2])
    beams.reorder(rows)
    assert beams.batch_size == 5
    cache.repeat(2)
    pairs = torch.arange(3).repeat_interleave(2)
    for followed, kept, rest in ((beams, rows, other), (cache, pairs, tokens), (fork, None, other)):
        kept = torch.arange(3) if kept is None else kept
        rest = rest[kept, 6:]
        whole = model(torch.cat([tokens[kept, :6], rest], 1), lengths=lengths[kept] + 7)
        same(feed(model, followed, rest, [1, 2, 2]), whole[:, 6:])


@every_case
@pytest.mark.parametrize("padded", [False, True], ids=["plain", "padded"])
def test_crop_is_a_fresh_run_on_what_is_kept(case: Case, padded: bool) -> None:
    """To a snapshot, beyond one, to before the first, and to nothing; more than once."""
    model, tokens, other = model_of(case), draw(), draw(seed=9)
    lengths = torch.tensor([11, 10, 9]) if padded else None
    cache = model.new_cache(3, snapshot_every=4)
    model(tokens[:, :11], cache, lengths=lengths)
    for kept in (10, 8, 7, 3, 0):
        cache.crop(kept, model=model)
        assert cache.length == kept
        follower = cache.copy()
        start = None if lengths is None or kept == 0 else lengths - (11 - kept)
        whole = model(
            torch.cat([tokens[:, :kept], other[:, :3]], 1),
            lengths=None if start is None else start + 3,
        )
        same(feed(model, follower, other[:, :3], [1]), whole[:, kept:])
    assert cache.num_bytes() == 0


@looped
def test_one_slot_a_layer_is_wrong(case: Case) -> None:
    """What servers that key caches by layer alone compute for a looped model (claim L5)."""
    model, tokens = model_of(case), draw()
    cache = model.new_cache(3)
    for layer in range(model.config.num_layers):
        cache.slots[layer, 1] = cache.slots[layer, 0]
    wrong = feed(model, cache, tokens, list(range(1, LENGTH)))
    assert (wrong - model(tokens)).abs().max() > 1e-3  # `test_random_pieces`: ours is below 1e-10


@pytest.mark.parametrize("case", [c for c in CASES if c.has_state], ids=str)
def test_dropping_linear_history_is_wrong(case: Case) -> None:
    """What LT2's public generation does: only attention has caches, tokens come one by one."""
    model, tokens = model_of(case), draw()
    cache, parts = model.new_cache(3), []
    names = case.pattern.split(",")
    for t in range(LENGTH):
        for (layer, loop), _ in cache.slots.items():
            if issubclass(MIXERS[names[layer]], LinearMixer):
                cache.slots[layer, loop] = Slot()
        parts.append(model(tokens[:, t : t + 1], cache))
    wrong, whole = torch.cat(parts, 1), model(tokens)
    assert (wrong - whole)[:, 1:].abs().max() > 1e-3
    same(wrong[:, 0], whole[:, 0])
