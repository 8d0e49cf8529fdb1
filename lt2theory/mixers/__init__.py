"""The token mixers: one small file each, one line of registration here.

A mixer is `prepare` (projections, convolution, normalisation, gates), the family of its op, and
`output` (norm, gate, projection). It never names a backend and never sees a loop: the model
joins the parts (docs/architecture.md).
"""

from lt2theory.mixers.base import AttentionMixer as AttentionMixer
from lt2theory.mixers.base import LinearMixer as LinearMixer
from lt2theory.mixers.base import Mixer as Mixer
from lt2theory.mixers.deltanet import DeltaNet as DeltaNet
from lt2theory.mixers.dsa import DeepSeekSparseAttention as DeepSeekSparseAttention
from lt2theory.mixers.gated_deltaproduct import GatedDeltaProduct as GatedDeltaProduct
from lt2theory.mixers.gdn import GatedDeltaNet as GatedDeltaNet
from lt2theory.mixers.gla import GatedLinearAttention as GatedLinearAttention
from lt2theory.mixers.hgrn2 import HGRN2 as HGRN2
from lt2theory.mixers.kda import KimiDeltaAttention as KimiDeltaAttention
from lt2theory.mixers.linear_attention import LinearAttention as LinearAttention
from lt2theory.mixers.mamba2 import Mamba2 as Mamba2
from lt2theory.mixers.mlstm import MLSTM as MLSTM
from lt2theory.mixers.nsa import NativeSparseAttention as NativeSparseAttention
from lt2theory.mixers.options import MixerOptions as MixerOptions
from lt2theory.mixers.retnet import RetNet as RetNet
from lt2theory.mixers.softmax import SoftmaxAttention as SoftmaxAttention
from lt2theory.mixers.stream import Slot as Slot
from lt2theory.mixers.stream import Stream as Stream
from lt2theory.mixers.window import WindowAttention as WindowAttention

MIXERS: dict[str, type[LinearMixer] | type[AttentionMixer]] = {
    "full": SoftmaxAttention,
    "window": WindowAttention,
    "nsa": NativeSparseAttention,
    "dsa": DeepSeekSparseAttention,
    "linear_attention": LinearAttention,
    "retnet": RetNet,
    "mamba2": Mamba2,
    "gla": GatedLinearAttention,
    "hgrn2": HGRN2,
    "mlstm": MLSTM,
    "deltanet": DeltaNet,
    "gdn": GatedDeltaNet,
    "kda": KimiDeltaAttention,
    "gated_deltaproduct": GatedDeltaProduct,
}
"""Every mixer by the name that a layer pattern uses."""
