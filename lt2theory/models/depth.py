"""The same weights, looped another number of times."""

import torch
from torch import Tensor

from lt2theory.models.arguments import check_whole
from lt2theory.models.looped import LoopedModel
from lt2theory.models.preset import changed


def at_depth(model: LoopedModel, num_loops: int) -> LoopedModel:
    """The model with another number of loops; weights are shared, not copied.

    Fewer loops are the first of the model's, followed by its norm and head: h^(num_loops) of the
    deeper model is h^(T) of this one. More are possible where no loop has weights of its own, as
    in Ouro (arXiv 2510.25741, Table 10: quality falls slowly beyond the trained depth).

    Args:
        model: The model.
        num_loops: Loops of the result, at least 1.

    Returns:
        A model of its own, with caches of its own, in the same mode.

    Raises:
        ValueError: `num_loops` is below 1, or beyond the loops that have a gate each.
    """
    check_whole("num_loops", num_loops)
    most = model.config.num_loops if model.config.loop_gate else None
    if num_loops < 1 or (most is not None and num_loops > most):
        allowed = ">= 1" if most is None else f"in 1..{most}, since every loop has a gate"
        raise ValueError(f"num_loops: {num_loops} is not allowed (must be {allowed})")
    loops = model.config.pattern.split("->")[:num_loops]
    own = dict(model.named_parameters())
    with torch.device("meta"):
        other = LoopedModel(changed(model.config, num_loops=num_loops, pattern="->".join(loops)))
    # What the first loops need of mixers is the first of what all loops need.
    weights: dict[str, Tensor] = {name: own[name] for name, _ in other.named_parameters()}
    if model.config.loop_gate:
        weights["loop_gate"] = own["loop_gate"].detach()[:num_loops]
    other.load_state_dict(weights, assign=True)
    return other.train(model.training)
