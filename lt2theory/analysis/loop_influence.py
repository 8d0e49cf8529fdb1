"""How far the influence on one position has spread after every loop."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from lt2theory.analysis._checks import check_at_least, check_interval
from lt2theory.analysis.influence import _cotangents
from lt2theory.analysis.influence_law import influence_law
from lt2theory.models import LoopedConfig, LoopedModel


def influence_by_loops(
    model: LoopedModel,
    tokens: Int[Tensor, "b t"],
    position: int,
    *,
    loops: Sequence[int] | None = None,
    num_probes: int | None = None,
    generator: torch.Generator | None = None,
    chunk: int = 16,
) -> pd.DataFrame:
    """Influence of every earlier token on h^(tau) at one position, for several tau.

    As `measured_influence` of the residual stream for each of them, in one run of the model.

    Args:
        model: Looped model, in the dtype to be measured; left as it is.
        tokens: Token ids.
        position: Which position, counted from 0.
        loops: Numbers of loops tau; None is 1 .. T.
        num_probes: As in `measured_influence`.
        generator: As in `measured_influence`; with `num_probes` only.
        chunk: As in `measured_influence`.

    Returns:
        One row for each `loops_done` and `distance`: `norm` (root mean square over the batch of the
        Jacobian's Frobenius norm), `share` (mean over the batch of each row's norm over its sum)
        and `reached` (whether any batch row has an influence that is not exactly zero).

    Raises:
        ValueError: If an argument is out of range, or one of `num_probes` and `generator` is alone.
    """
    check_at_least("chunk", chunk, 1)
    chosen = list(range(1, model.config.num_loops + 1) if loops is None else loops)
    for count in chosen:
        check_interval("loops", count, 1, model.config.num_loops)
    check_interval("position", position, 0, tokens.shape[1] - 1)
    if (num_probes is None) != (generator is None):
        raise ValueError("num_probes, generator: one alone is not allowed (give both or neither)")
    embedded = model.embed(tokens[:, : position + 1]).detach()
    square = torch.zeros(len(chosen), *embedded.shape[:2], dtype=torch.float64)
    touched = torch.zeros(square.shape, dtype=torch.bool)
    for cotangents in _cotangents(embedded.shape[-1], num_probes, generator, chunk):
        for row, vjp in enumerate(_pull_back(model, embedded, cotangents.to(embedded), chosen)):
            square[row] += vjp.double().square().sum((0, -1)).cpu()
            touched[row] |= (vjp != 0).any(-1).any(0).cpu()
    if num_probes is not None:
        square /= num_probes
    norm = square.sqrt().flip(-1)
    total = norm.sum(-1, keepdim=True)
    share = (norm / torch.where(total > 0, total, 1)).mean(1)
    loops_done, distance = np.indices(tuple(share.shape)).reshape(2, -1)
    return pd.DataFrame(
        {
            "loops_done": np.asarray(chosen)[loops_done],
            "distance": distance,
            "norm": norm.square().mean(1).sqrt().numpy().ravel(),
            "share": share.numpy().ravel(),
            "reached": touched.any(1).flip(-1).numpy().ravel(),
        }
    )


def _pull_back(
    model: LoopedModel, embedded: Tensor, cotangents: Tensor, loops: Sequence[int]
) -> Iterator[Tensor]:
    """Yield `[m b t d]` for each number of loops: its cotangents, pulled back to the embeddings."""
    copies, batch = cotangents.shape[0], embedded.shape[0]
    x = embedded.repeat(copies, 1, 1).requires_grad_()
    weights = cotangents.repeat_interleave(batch, 0)
    with torch.enable_grad():
        states = model.loop_states(x)
        for count in loops:
            last = count == loops[-1]
            (gradient,) = torch.autograd.grad(
                states[count][:, -1], x, weights, retain_graph=not last
            )
            pulled: Tensor = gradient.unflatten(0, (copies, batch))
            yield pulled


def windows_of(config: LoopedConfig) -> tuple[int, ...] | None:
    """Window of every layer, where the model has nothing else.

    Args:
        config: Config of a model.

    Returns:
        Tokens that each layer sees, or None if a linear or full layer makes the reach unbounded or
        the windows change from loop to loop.
    """
    if any(spec.mixer != "window" for loop in config.loops for spec in loop):
        return None
    if len(set(config.loops)) > 1:
        return None  # one window a layer would not say it
    return tuple(config.window if one.window is None else one.window for one in config.layers)


def reach_by_loops(
    windows: Sequence[int], loops: Sequence[int], *, num_tokens: int
) -> pd.DataFrame:
    """Tokens that can influence the last of `num_tokens` after every loop (theory W1).

    Args:
        windows: Window of every layer.
        loops: Numbers of loops.
        num_tokens: Tokens up to and including the measured one, at least 1.

    Returns:
        `loops_done` and `reach`: `min(t, tau * sum(w - 1) + 1)`.
    """
    check_at_least("num_tokens", num_tokens, 1)
    hop = sum(window - 1 for window in windows)
    found = [min(num_tokens, count * hop + 1) for count in loops]
    return pd.DataFrame({"loops_done": list(loops), "reach": found})


def law_by_loops(
    window: int, num_layers: int, residual: float, loops: Sequence[int], *, num_tokens: int
) -> pd.DataFrame:
    """The influence law W3 after every loop, cut off at the start of the sequence.

    Args:
        window: Window of every layer.
        num_layers: Layers N a loop.
        residual: Weight a of the residual.
        loops: Numbers of loops.
        num_tokens: Tokens up to and including the measured one.

    Returns:
        `loops_done`, `distance` and `share`, which sums to 1 where nothing is cut off.
    """
    tables = []
    for count in loops:
        law = influence_law(window, residual, num_layers * count)[:num_tokens]
        rows = {"loops_done": count, "distance": np.arange(len(law)), "share": law}
        tables.append(pd.DataFrame(rows))
    return pd.concat(tables, ignore_index=True)
