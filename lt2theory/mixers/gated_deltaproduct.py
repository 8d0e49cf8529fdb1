"""Gated DeltaProduct: several delta-rule steps a token (Siems et al., arXiv 2502.10297)."""

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from lt2theory.mixers.decay import on_first_factor
from lt2theory.mixers.gdn import GatedDeltaNet
from lt2theory.mixers.options import MixerOptions


class GatedDeltaProduct(GatedDeltaNet):
    """GDN with n factors a token: `A_t = (I - beta_n k_n k_n^T) .. (I - beta_1 k_1 k_1^T) alpha_t`.

    Each factor has its own key, value and beta; the gate decays once a token, before the first,
    and the query reads after the last (section 3). With one factor it is Gated DeltaNet, and with
    `decay_grain="none"` DeltaProduct with an output gate.

    Parameter names and shapes of FLA's `GatedDeltaProduct`, whose `num_householder` is
    `num_factors`, whose `allow_neg_eigval` (on by default there) is `negative_eigenvalues`, and
    whose `use_forget_gate=False` is `decay_grain="none"`. Not carried: `num_v_heads`, `conv_bias`
    and `use_output_gate=False`.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options, options.num_factors)

    @override
    def log_decay(
        self, x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t f h"] | Float[Tensor, "b t f h k"] | None:
        log_decay = super().log_decay(x)
        return None if log_decay is None else on_first_factor(log_decay, self.num_factors)
