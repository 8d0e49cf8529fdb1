"""Hand-built keys and strengths, dealt to the loops of a model token by token."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.ops import Factors

BACKENDS = ("reference", "chunked")
"""Those by which constructions are run."""


def deal(
    keys: Float[Tensor, "n loops k"],
    betas: Float[Tensor, "n loops"],
    words: Int[Tensor, "b t"],
    *,
    semantics: str = "accumulate",
    value: float = 0.0,
    decay: float = 1.0,
) -> Factors:
    """What the last loop's op receives when every loop applies one factor of its token.

    Args:
        keys: Of every token, one a loop.
        betas: Their erase strengths.
        words: Tokens.
        semantics: `accumulate` joins the loops, `rescan` leaves each loop its own scan.
        value: What is written; 0 writes nothing.
        decay: Of the whole state, in every loop.

    Returns:
        Factors of one head with a zero query, which is not scaled.
    """
    joined: Factors | None = None
    for loop in range(keys.shape[1]):
        k = keys[words, loop][:, :, None, None]
        beta = betas[words, loop][:, :, None, None]
        now = Factors(
            torch.zeros_like(k[:, :, 0]),
            k,
            k.new_full((*k.shape[:-1], 1), value),
            None if decay == 1 else torch.full_like(beta, math.log(decay)),
            beta=beta,
            write=torch.full_like(beta, float(value != 0)),
            scale=1.0,
        )
        joined = now.after(joined) if semantics == "accumulate" else now
    assert joined is not None, "loops >= 1"
    return joined
