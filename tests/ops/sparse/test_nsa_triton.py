"""Native sparse attention through the Triton kernels against float64, and its parts one by one.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.ops.sparse import block_launch, choice_launch, span_launch, triton_backend
from lt2theory.ops.sparse.choice_launch import Blocks
from lt2theory.ops.sparse.nsa import _runs
from lt2theory.ops.sparse.nsa_parts import Branch, Piece, whole
from lt2theory.ops.sparse.nsa_reference import (
    BlockSparseProblem,
    reference_block_sparse,
    selected_keys,
)
from lt2theory.ops.sparse.nsa_spans import Layout, Spans
from lt2theory.ops.sparse.tiling import Heads
from lt2theory.ops.sparse.triton_backend import triton_block_sparse

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
NAMES = ("q", "k", "v", "gates")


def make(
    length: int,
    keys: int,
    *,
    device: str = "cpu",
    heads: int = 4,
    groups: int = 2,
    widths: tuple[int, int] = (8, 6),
    size: int = 4,
    blocks: int = 3,
    window: int | None = 7,
    segments: bool = False,
) -> BlockSparseProblem:
    """A problem in float32; segments begin with padding, change, come back and end in padding."""
    rng = torch.Generator().manual_seed(length + size)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng).to(device)

    ids = None
    if segments:
        index = torch.arange(keys)
        ids = torch.stack([index // 30 - 1, index // 41 % 2])
        ids[1, index % 37 == 5] = -1
        ids = _runs(ids).to(device)
    return BlockSparseProblem(
        draw(2, length, heads, widths[0]),
        draw(2, keys, groups, widths[0]),
        draw(2, keys, groups, widths[1]),
        window=window,
        scale=0.4,
        query_segments=None if ids is None else ids[:, keys - length :],
        key_segments=ids,
        gates=draw(2, length, heads, 3),
        block_size=size,
        num_blocks=blocks,
    )


def cast(problem: BlockSparseProblem, dtype: torch.dtype) -> BlockSparseProblem:
    return replace(problem, **{name: getattr(problem, name).to(dtype) for name in NAMES})


def with_gradients(
    attend: Callable[[BlockSparseProblem], Tensor], problem: BlockSparseProblem
) -> list[Tensor]:
    """Output, and gradients of a random projection of it."""
    leaves = {name: getattr(problem, name).clone().requires_grad_() for name in NAMES}
    output = attend(replace(problem, **leaves))
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    (output * weight.to(output)).sum().backward()
    found = [output.detach(), *(leaf.grad for leaf in leaves.values())]
    return [x for x in found if x is not None]


def compare(problem: BlockSparseProblem, bound: float = 2e-5) -> None:
    exact = with_gradients(reference_block_sparse, cast(problem, torch.float64))
    ours = with_gradients(triton_block_sparse, problem)
    for name, found, wanted in zip(("o", *NAMES), ours, exact, strict=True):
        assert found.dtype == problem.q.dtype
        error = (found.double() - wanted).norm()
        assert error <= bound * max(wanted.norm().item(), 1.0), f"{name}: {error}"


@pytest.fixture
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """New memory holds NaN, or the largest whole number."""

    def fill(new: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def poisoned(*args: object, **options: object) -> Tensor:
            x = new(*args, **options)
            return x.fill_(torch.nan if x.is_floating_point() else torch.iinfo(x.dtype).max)

        return poisoned

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, fill(getattr(torch, name)))
    monkeypatch.setattr(Tensor, "new_empty", fill(Tensor.new_empty))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("length", "keys", "size", "blocks", "groups"),
    [
        (1, 1, 4, 3, 2),
        (1, 67, 4, 5, 4),
        (67, 67, 4, 3, 1),
        (31, 91, 5, 6, 2),
        (35, 35, 1, 4, 4),
        (90, 90, 40, 2, 2),
        (33, 61, 4, 1, 2),
        (33, 33, 4, 100, 2),
        (9, 20, 64, 3, 2),
    ],
)
@pytest.mark.parametrize("segments", [False, True])
def test_values_and_gradients(
    device: str, length: int, keys: int, size: int, blocks: int, groups: int, segments: bool
) -> None:
    """Blocks of one token, wider than a tile, more than there are, none to choose, none whole."""
    sizes = {"size": size, "blocks": blocks, "groups": groups}
    compare(make(length, keys, device=device, segments=segments, **sizes))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("window", [1, 50, None])
def test_windows(device: str, window: int | None) -> None:
    compare(make(67, 90, device=device, window=window))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (3, 1), (2, 2)])
def test_widths_and_groups(device: str, heads: int, groups: int) -> None:
    """Keys of 96 and values of 192 are cut in tiles of 32 and 64."""
    compare(make(41, 41, device=device, heads=heads, groups=groups, widths=(96, 192)))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("buffer", [1, 50000], ids=["queries", "key heads"])
def test_pieces(device: str, buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a key head, and of some key heads, of which the last has fewer."""
    monkeypatch.setattr(block_launch, "_BUFFER", buffer)
    monkeypatch.setattr(block_launch, "_UNIT", 32)
    problem = make(75, 90, device=device, segments=True, heads=5, groups=5)
    heads = Heads(problem.q, problem.k, problem.v, problem.scale)
    blocks = Blocks(torch.zeros(2, 90 // 4, dtype=torch.int32), size=4, slots=2, past=15)
    pieces = block_launch.pieces_of(heads, blocks)
    queries = sorted(
        (j, n)
        for piece in pieces
        for j in range(piece.first, piece.first + piece.count)
        for n in range(piece.start, piece.stop)
    )
    assert queries == [(j, n) for j in range(10) for n in range(75)]
    assert 1 < len(pieces) == (30 if buffer == 1 else 3)
    compare(problem)


def before_the_choice(
    problem: BlockSparseProblem,
) -> tuple[Branch, Tensor, Spans, Blocks, Piece]:
    """What `choose` reads."""
    heads = Heads(problem.q, problem.k, problem.v, problem.scale)
    (_, length, _, _), num_keys = heads.q.shape, heads.k.shape[1]
    plan = triton_backend._Plan(
        Layout.of(problem),
        problem.scale,
        problem.block_size,
        slots=min(problem.num_blocks - 1, num_keys // problem.block_size),
        segmented=problem.key_segments is not None,
    )
    blocks = plan.blocks(num_keys - length)
    assert blocks is not None
    compressed, _, _ = triton_backend._branches(heads, plan)
    output = heads.q.new_empty(*heads.q.shape[:3], heads.v.shape[3])
    lse = heads.q.new_empty(heads.q.shape[:3], dtype=torch.float32)
    span_launch.attend(compressed, output, lse, whole(heads))
    return compressed, lse, plan.layout.earlier, blocks, whole(heads)


def choices(problem: BlockSparseProblem) -> Tensor:
    """The blocks that every query takes by their lists, as a mask over keys `[b g t m]`."""
    (batch, length, _, _), (num_keys, groups) = problem.q.shape, problem.k.shape[1:3]
    complete = num_keys // problem.block_size
    read = before_the_choice(problem)
    choice, blocks = choice_launch.choose(*read), read[3]
    mask = torch.zeros(batch * groups, length, num_keys, dtype=torch.bool)
    slots = torch.zeros(batch * groups, length, dtype=torch.long)
    begin = 0
    for job, end in enumerate(choice.ends.tolist()):
        j, c = divmod(job, complete)
        last = int(blocks.last[j // groups, c])
        entries = choice.lists[begin:end].cpu()
        assert entries.tolist() == entries.sort().values.tolist(), "queries are in order"
        queries = entries // blocks.slots
        # Blocks come in their order, so a query's slots count up.
        assert torch.equal(entries % blocks.slots, slots[j, queries])
        slots[j, queries] += 1
        mask[j, queries, last + 1 - problem.block_size : last + 1] = True
        begin = end
    assert torch.equal(slots, choice.taken.cpu().long())
    return mask.unflatten(0, (batch, groups))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(
    ("size", "blocks", "keys"), [(4, 5, 150), (2, 3, 70), (1, 12, 67), (4, 40, 90)]
)
def test_the_choice_is_the_references(
    device: str, segments: bool, size: int, blocks: int, keys: int
) -> None:
    """One query head a key head and queries and keys of few values: most scores are ties."""
    problem = make(67, keys, device=device, size=size, blocks=blocks, segments=segments, groups=4)
    whole = {name: getattr(problem, name).round().clamp(-1, 1) for name in ("q", "k")}
    problem = replace(problem, **whole, scale=0.25)
    read = selected_keys(cast(problem, torch.float64)).cpu()
    own = replace(problem, num_blocks=1)
    assert torch.equal(choices(problem), read & ~selected_keys(own).cpu())


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("length", "size"), [(67, 1), (97, 2)])
def test_the_choice_by_small_pieces(
    device: str, length: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early queries choose in narrower programs within wide bounds, and several write a list."""
    for name, value in {"_FEWEST": 32, "_LISTED": 32, "_ROWS": 2, "_STEPS": 1}.items():
        monkeypatch.setattr(choice_launch, name, value)
    problem = make(length, 150, device=device, size=size, blocks=7, groups=2, heads=2)
    read = selected_keys(cast(problem, torch.float64)).cpu()
    own = selected_keys(replace(problem, num_blocks=1)).cpu()
    assert torch.equal(choices(problem), read & ~own)


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(("heads", "groups", "blocks"), [(2, 2, 8), (4, 2, 8), (1, 1, 60)])
def test_bounds_of_the_choice(
    device: str, segments: bool, heads: int, groups: int, blocks: int
) -> None:
    """Tiles of 32 blocks, of which there are three; more blocks are wanted than a tile has."""
    sizes = {"heads": heads, "groups": groups, "blocks": blocks}
    problem = make(40, 75, device=device, size=1, segments=segments, **sizes)
    read = before_the_choice(problem)
    (order, (least, most)), earlier = choice_launch._importances(*read), read[2]
    place = torch.arange(75, device=device)
    low, high = (x.repeat_interleave(groups, 0)[..., None] for x in (earlier.low, earlier.high))
    candidate = (place >= low) & (place < high)
    order = torch.where(candidate, order, -1)
    assert (order >= 0).equal(candidate)
    assert torch.equal(most, order.amax(-1).to(most))
    reach = (order >= least[..., None]).sum(-1)
    wanted = candidate.sum(-1).clamp(max=blocks - 1)
    assert (reach >= wanted).all()
    assert (least >= 0).all()
    if blocks == 8:
        assert (reach <= wanted + 1).float().mean() > 0.9


@pytest.mark.parametrize("device", DEVICES)
def test_of_equal_blocks_the_earlier_is_selected(device: str) -> None:
    """Every key is zero, so that all blocks are equally important."""
    problem = make(53, 53, device=device)
    problem = replace(problem, k=torch.zeros_like(problem.k))
    chosen = choices(problem)
    assert chosen[..., 20:, :8].all()
    assert not chosen[..., 8:].any()


def test_readers() -> None:
    """Every query that reads a key is among the readers of its tile, and no tile has more."""
    problem = make(60, 90, segments=True)
    layout = Layout.of(problem)
    for spans, num_keys in ((layout.window, 90), (layout.own, 90), (layout.visible, 22)):
        assert (spans.low.diff(dim=1) >= 0).all()
        assert (spans.high.diff(dim=1) >= 0).all()
        key = torch.arange(num_keys)
        read = (key >= spans.low[..., None]) & (key < spans.high[..., None])
        readers = spans.readers(num_keys, 16)
        for row, first, tile in (
            (b, y, slice(16 * y, 16 * y + 16)) for b in (0, 1) for y in (0, 1)
        ):
            begin, end = readers[:, row, first].tolist()
            who = read[row, :, tile].any(-1).nonzero()[:, 0].tolist()
            assert who == [] or (begin <= who[0] and who[-1] < end)
            assert who == [] or begin == who[0]


def test_spans_are_the_references_masks() -> None:
    problem = make(60, 90, segments=True)
    layout = Layout.of(problem)

    def mask(spans: Spans, num_keys: int) -> Tensor:
        key = torch.arange(num_keys)
        return (key >= spans.low[..., None]) & (key < spans.high[..., None])

    own = selected_keys(replace(problem, num_blocks=1))[:, 0]
    assert torch.equal(mask(layout.own, 90), own)
    every = selected_keys(replace(problem, num_blocks=100))[:, 0] & ~own
    tokens = layout.last[:, :, None] + torch.arange(-3, 1)
    taken = torch.zeros_like(every)
    for row, query in mask(layout.earlier, 22).any(-1).nonzero().tolist():
        blocks = mask(layout.earlier, 22)[row, query]
        taken[row, query, tokens[row, blocks].flatten()] = True
    assert torch.equal(taken, every)
    inside = torch.arange(90).expand(2, 90)
    first = layout.last.gather(1, layout.block.clamp(min=0)) - 3
    assert ((first <= inside) & (inside < first + 4))[layout.block >= 0].all()


@pytest.mark.parametrize("device", DEVICES)
def test_later_tokens_change_nothing(device: str) -> None:
    problem = make(67, 67, device=device)
    changed = {
        name: torch.cat([getattr(problem, name)[:, :40], getattr(problem, name)[:, 40:] + 3], 1)
        for name in NAMES
    }
    before, after = triton_block_sparse(problem), triton_block_sparse(replace(problem, **changed))
    assert torch.equal(before[:, :40], after[:, :40])
    assert not torch.equal(before[:, 40:], after[:, 40:])


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_the_same_to_the_last_bit(device: str) -> None:
    problem = make(67, 67, device=device, groups=1)
    first, second = (with_gradients(triton_block_sparse, problem) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_too_many_blocks_for_registers(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_backend, "MOST_BLOCKS", 8)
    compare(make(41, 41, device=device))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("widths", [(96, 192), (40, 24), (256, 256)], ids=str)
@pytest.mark.parametrize("segments", [False, True])
def test_on_a_gpu(dtype: torch.dtype, widths: tuple[int, int], segments: bool) -> None:
    """Half precision may choose other blocks than float64, so every block has a place."""
    sizes = {"widths": widths, "size": 32, "blocks": 20, "window": 100}
    problem = make(321, 555, device="cuda", segments=segments, **sizes)
    problem = cast(replace(problem, scale=0.1), dtype)
    compare(problem, 5e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.gpu
def test_memory_is_linear_in_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_launch, "_BUFFER", 2**24)
    peaks = []
    for length in (4096, 16384):
        problem = make(length, length, device="cuda", size=32, blocks=8, widths=(32, 32))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with_gradients(triton_block_sparse, problem)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 4.5 * peaks[0]
