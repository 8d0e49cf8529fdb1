"""Softmax attention by FLA's Triton kernel, full or inside a window.

torch's fused kernel is faster and `auto` takes that; this one is for comparisons with FLA's models.
Packed text goes through as one long row with the borders of its segments, which are looked for on
the host.

Axes: b batch, t queries, m keys, h query heads, g key heads, k key width, v value width.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.attention_checks import coming_again
from lt2theory.ops.attention_reference import AttentionProblem, reference_attention
from lt2theory.ops.fla.route import is_installed
from lt2theory.ops.workload import AttentionWorkload, is_interpreting

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_WIDEST = 256
_TILE = 16  # the least that a product of Triton's takes


def fla_attention(problem: AttentionProblem) -> Float[Tensor, "b t h v"]:
    """Attention by `parallel_attn`; see `reference_attention` for its meaning.

    Earlier keys, as from a cache, are met by queries of zero whose outputs are dropped. float32
    inputs are multiplied as TensorFloat-32 in places on a GPU. First derivatives only.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.

    Raises:
        ValueError: A segment is no run of tokens, or a query's is not its own key's.
    """
    if problem.v.numel() == 0 or problem.q.numel() == 0:
        return reference_attention(problem)
    past = problem.k.shape[1] - problem.q.shape[1]
    borders = _borders(problem)
    from fla.ops.attn.parallel import parallel_attn

    q = F.pad(problem.q, (0, 0, 0, 0, past, 0))
    q, k, v = (_widened(x) for x in (q, problem.k, problem.v))
    if borders is not None:
        q, k, v = (x.flatten(0, 1).unsqueeze(0) for x in (q, k, v))
    o = parallel_attn(
        q.contiguous(),
        k.contiguous(),
        v.contiguous(),
        scale=problem.scale,
        window_size=problem.window,
        cu_seqlens=borders,
    )
    o = o.reshape(*problem.k.shape[:2], *o.shape[2:])[:, past:, :, : problem.v.shape[-1]]
    if problem.query_segments is not None:
        o = torch.where((problem.query_segments >= 0)[:, :, None, None], o, 0.0)
    output: Tensor = o.to(problem.q.dtype)
    return output


def _widened(x: Tensor) -> Tensor:
    """Heads padded with zeros to the least width that the kernel takes."""
    return F.pad(x, (0, max(0, _TILE - x.shape[-1])))


def _borders(problem: AttentionProblem) -> Tensor | None:
    """Where the runs of equal segments begin and end in the rows laid end to end."""
    segments = problem.key_segments
    if segments is None:
        return None
    starts = torch.ones_like(segments, dtype=torch.bool)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    _check_runs(problem)
    begins = starts.flatten().nonzero().flatten()
    return torch.cat([begins, begins.new_tensor([segments.numel()])])


def _check_runs(problem: AttentionProblem) -> None:
    """Refuse what borders cannot say: a segment that comes again, queries of other segments."""
    keys, queries = problem.key_segments, problem.query_segments
    assert keys is not None
    assert queries is not None
    if (again := coming_again(keys)) is not None:
        raise ValueError(
            f"key_segments: segment {again[1]} comes again in row {again[0]} after another, "
            "allowed for backend 'fla' is one run of tokens a segment"
        )
    if not torch.equal(queries, keys[:, keys.shape[1] - queries.shape[1] :]):
        raise ValueError(
            "query_segments: another segment than that of the query's own key, allowed for backend "
            "'fla' is the last part of key_segments"
        )


def refuses_attention(workload: AttentionWorkload) -> str | None:
    """Why FLA's kernel cannot run an attention, or None where it can.

    Args:
        workload: The attention.

    Returns:
        The reason and what to do.
    """
    if not is_installed():
        return "FLA and Triton are not installed; install fla-core"
    if workload.device != "cuda" and not is_interpreting():
        return f"FLA's kernels need a CUDA device, the tensors are on {workload.device}"
    if workload.dtype not in _DTYPES:
        return f"FLA's kernels have no {workload.dtype}; use float32, float16 or bfloat16"
    if max(workload.key_width, workload.value_width) > _WIDEST:
        return f"heads wider than {_WIDEST} do not fit FLA's kernel"
    return None
