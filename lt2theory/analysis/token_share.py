"""How much of a transition the token alone decides, and how much what was read before.

Statements such as theory E8 are about transitions that are functions of the token. Without a
convolution those of the first loop are; those of later loops are prepared from what the loops
before have read, and so may follow the state.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.analysis.composed_factors import ComposedFactors


def beyond_token(composed: ComposedFactors, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "h"]:
    """Share of the last factor's erasure that its token does not explain.

    With `P = beta k k^T` and its mean over all places that hold the same token, that is
    `sum |P - mean(P | token)|^2 / sum |P|^2` over all places: 0 where P is a function of the token,
    and near 1 where places of one token have nothing in common. A head that erases nothing has 0,
    one whose factors are not finite NaN. Of several factors a loop (DeltaProduct) it is the last.
    Few places a token bias it downwards: their mean follows them.

    Args:
        composed: Factors of spans of one token each.
        tokens: The token of every span.

    Returns:
        One share a head.

    Raises:
        ValueError: The mixer erases nothing, or there is not one token a span.
    """
    if composed.betas is None:
        raise ValueError("composed: its mixer has no beta; expected one that erases")
    if composed.keys.shape[:2] != tokens.shape:
        got = f"{tuple(tokens.shape)} for spans {tuple(composed.keys.shape[:2])}"
        raise ValueError(f"tokens: got {got}, expected a token a span")
    key, beta = composed.keys[..., -1, :].flatten(0, 1), composed.betas[..., -1].flatten(0, 1)
    erased = beta[..., None, None] * key[..., :, None] * key[..., None, :]
    seen, place = tokens.flatten().unique(return_inverse=True)
    total = erased.new_zeros(len(seen), *erased.shape[1:]).index_add(0, place, erased)
    mean = total / place.bincount()[:, None, None, None]
    left = (erased - mean[place]).square().sum((0, 2, 3))
    whole = erased.square().sum((0, 2, 3))
    return torch.where(whole == 0, 0.0, left / whole)
