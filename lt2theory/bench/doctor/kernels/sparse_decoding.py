"""Checks of the kernels that a decoding step of attention takes from projections to read-out."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck, Problem, Tensors, one_hot
from lt2theory.mixers.rotary import rotate
from lt2theory.ops.fused.decode_attention import reference_buffer_attention
from lt2theory.ops.sparse.dsa_reference import index_scores

_EPS, _BASE = 1e-5, 1e4


def _indexer(heads: int, width: int, queries: int, keys: int, x: Tensors) -> Any:
    """Where the indexer's part of a row stands: queries, key and weights side by side."""
    from lt2theory.ops.fused.triton_place import IndexLayout

    weights = max(keys + width, queries + heads * width)
    return IndexLayout(heads, width, queries, keys, weights, x["gain"], x["bias"], _EPS)


def _frequencies(width: int, device: str) -> Tensor:
    half = width // 2
    return _BASE ** -(torch.arange(half, device=device, dtype=torch.float32) / half)


def _place(draw: Draw) -> Problem:
    """Four heads, two key heads, an indexer, and a block that this token completes."""
    heads, groups, keys, values, inner, count, block = 4, 2, 40, 24, 16, 3, 8
    widths = [heads * keys, groups * keys, groups * values, count * inner, inner]
    inputs = {
        "projected": draw.normal(2, sum(widths)),
        "keys": draw.normal(2, 50, groups, keys),
        "values": draw.normal(2, 50, groups, values),
        "index_keys": draw.normal(2, 50, inner),
        "pooled_keys": draw.normal(2, 7, groups, keys, dtype=torch.float32),
        "pooled_values": draw.normal(2, 7, groups, values, dtype=torch.float32),
        "gain": draw.normal(inner),
        "bias": draw.normal(inner),
    }
    length, first = 40, draw.position(0, 3)  # the first row's fifth block is complete
    position = length - 1 - first

    def run(x: Tensors) -> Tensors:
        from lt2theory.ops.fused.triton_place import place_token

        kept = {name: each.clone() for name, each in x.items() if name not in ("gain", "bias")}
        row, begin = kept.pop("projected"), sum(widths[:3])
        place_token(
            row, kept, heads=heads, length=draw.position(length), first=first,
            turns=(_frequencies(keys, draw.device), _frequencies(inner, draw.device)),
            index=_indexer(count, inner, begin, begin + count * inner, x), block_size=block,
        )  # fmt: skip
        return {"projected": row, **kept}

    def reference(x: Tensors) -> Tensors:
        def turned(part: Tensor, width: int) -> Tensor:
            return rotate(part.unflatten(-1, (-1, width))[:, None], position[:, None], _BASE)[:, 0]

        q, k, v, index_q, index_k = x["projected"].split(widths, -1)
        index_k = F.layer_norm(index_k, (inner,), x["gain"], x["bias"], _EPS)
        found = {name: x[name].clone() for name in inputs if name not in ("gain", "bias")}
        found["keys"][:, length - 1] = turned(k, keys)
        found["values"][:, length - 1] = v.unflatten(-1, (groups, values))
        found["index_keys"][:, length - 1] = turned(index_k, inner)[:, 0]
        for name in ("keys", "values"):
            found[f"pooled_{name}"][0, 4] = found[name][0, length - block : length].mean(0)
        queries = [turned(q, keys).flatten(1), turned(index_q, inner).flatten(1)]
        middle = x["projected"][:, widths[0] : sum(widths[:3])]
        tail = x["projected"][:, -inner:]
        found["projected"] = torch.cat([queries[0], middle, queries[1], tail], -1)
        return found

    return Problem(inputs, run, reference, differentiable=False)


def _index_step(draw: Draw) -> Problem:
    """Scores that are exact and tie, in rows of several slices."""
    heads, width, capacity, length, taken = 4, 16, 300, 287, 23
    inputs = {
        "projected": draw.whole(2, heads * width + heads),
        "keys": draw.whole(2, capacity, width),
        "gain": draw.normal(width),
        "bias": draw.normal(width),
    }
    first, arrived = draw.position(0, 5), draw.counters(2)

    def run(x: Tensors) -> Tensors:
        from lt2theory.ops.fused.triton_choice import highest_places
        from lt2theory.ops.fused.triton_index_step import index_order

        index = _indexer(heads, width, 0, 0, x)
        newest = draw.position(length)
        order = index_order(x["projected"], x["keys"], index, length=newest)
        places = [
            highest_places(
                order, taken, arrived, length=newest, first=first, slice_size=size, held=held
            )
            for size, held in ((128, 32), (512, 512))
        ]
        return {
            name: one_hot(each[:, 0], capacity)
            for name, each in zip(("slices", "whole"), places, strict=True)
        }

    def reference(x: Tensors) -> Tensors:
        q = x["projected"][:, : heads * width].unflatten(1, (heads, width))[:, None]
        weight = x["projected"][:, None, heads * width :] * (heads * width) ** -0.5
        scores = index_scores(q, x["keys"][:, :length], weight)[:, 0]
        rows = []
        for row, begin in zip(scores, first.tolist(), strict=True):
            best = row[begin:].argsort(descending=True, stable=True)[:taken]
            rows.append(one_hot(best.sort().values, capacity))
        return {"slices": torch.stack(rows), "whole": torch.stack(rows)}

    return Problem(inputs, run, reference, differentiable=False)


def _choose_blocks(draw: Draw) -> Problem:
    """Six heads of two key heads, and thirty blocks of which the newest is not complete."""
    heads, groups, keys, values, blocks, size, taken = 6, 2, 40, 24, 30, 7, 5
    inputs = {
        "projected": draw.normal(2, heads * keys),
        "pooled_keys": draw.normal(2, blocks, groups, keys, dtype=torch.float32),
        "pooled_values": draw.normal(2, blocks, groups, values, dtype=torch.float32),
    }
    length, first, arrived = 200, draw.position(0, 9), draw.counters(2, groups)

    def run(x: Tensors) -> Tensors:
        from lt2theory.ops.fused.triton_block_step import choose_blocks

        read, chosen = choose_blocks(
            x["projected"], x["pooled_keys"], x["pooled_values"], arrived, heads=heads,
            length=draw.position(length), first=first, block_size=size, num_blocks=taken,
        )  # fmt: skip
        return {"read": read, "chosen": one_hot(chosen, blocks)}

    def reference(x: Tensors) -> Tensors:
        place = torch.arange(blocks, device=first.device)
        complete, own = (length - first) // size, (length - 1 - first) // size
        q = x["projected"].unflatten(1, (groups, -1, keys))
        scores = torch.einsum("bgrk,bcgk->bgrc", q, x["pooled_keys"]) * keys**-0.5
        unseen = (place >= complete[:, None])[:, None, None]
        weights = scores.masked_fill(unseen, -torch.inf).softmax(-1)
        importance = weights.sum(2).masked_fill((place >= own[:, None])[:, None], -1.0)
        ranked = importance.argsort(dim=-1, descending=True, stable=True)[..., : taken - 1]
        others = ranked.sort().values
        chosen = torch.cat([own[:, None, None].expand(-1, groups, 1), others], -1)
        read = torch.einsum("bgrc,bcgv->bgrv", weights, x["pooled_values"]).flatten(1, 2)
        return {"read": read, "chosen": one_hot(chosen, blocks)}

    return Problem(inputs, run, reference, differentiable=False)


def _chosen_attention(draw: Draw, heads: int) -> Problem:
    """Chosen blocks, a window and a third read, gated and joined."""
    groups, keys, values, size, window, capacity, length = 2, 40, 24, 8, 30, 205, 200
    inputs = {
        "projected": draw.normal(2, heads * (keys + 3)),
        "keys": draw.normal(2, capacity, groups, keys),
        "values": draw.normal(2, capacity, groups, values),
        "compressed": draw.normal(2, heads, values, dtype=torch.float32),
    }
    first, arrived = draw.position(0, 9), draw.counters(2, groups)
    chosen = draw.order(2 * groups, 23)[:, :7].view(2, groups, 7).int()
    chosen[:, :, 5] = -1
    newest = draw.position(length)

    def run(x: Tensors) -> Tensors:
        from lt2theory.ops.fused.triton_chosen_attention import Gates, chosen_attention

        out = x["projected"].new_empty(2, heads * values)
        chosen_attention(
            x["projected"], x["keys"], x["values"], arrived, out, length=newest, first=first,
            chosen=chosen, size=size, window=window, compressed=x["compressed"],
            gates=Gates(branches=heads * keys),
        )  # fmt: skip
        return {"o": out}

    def reference(x: Tensors) -> Tensors:
        q = x["projected"][:, : heads * keys].unflatten(1, (heads, keys))
        inside = torch.arange(size, device=first.device)
        tokens = first[:, None, None, None] + chosen[..., None].long() * size + inside
        lists = torch.where((chosen[..., None] < 0) | (tokens >= length), -1, tokens).flatten(2)
        near = torch.maximum(first, newest - window)
        read = partial(reference_buffer_attention, q, x["keys"], x["values"], length=newest)
        reads = (x["compressed"], read(first=first, lists=lists.int()), read(first=near))
        gates = x["projected"][:, heads * keys :].unflatten(1, (heads, 3)).sigmoid()
        joined = torch.einsum("bhvn,bhn->bhv", torch.stack(reads, -1), gates)
        return {"o": joined.flatten(1)}

    return Problem(inputs, run, reference, differentiable=False)


def _shared(draw: Draw) -> Problem:
    return _chosen_attention(draw, 6)


def _lone(draw: Draw) -> Problem:
    return _chosen_attention(draw, 2)


_CHOSEN = ("fused.triton_chosen_attention", "fused.triton_head_tiles", "fused.triton_shares")

CHECKS = (
    KernelCheck("place token", ("fused.triton_place", "triton_grid"), _place),
    KernelCheck(
        "index step",
        ("fused.triton_index_step", "fused.triton_choice", "fused.triton_highest", "triton_grid"),
        _index_step,
    ),
    KernelCheck("choose blocks", ("fused.triton_block_step",), _choose_blocks),
    KernelCheck("chosen attention", _CHOSEN, _shared),
    KernelCheck("chosen, lone heads", _CHOSEN, _lone),
)
"""By name."""
