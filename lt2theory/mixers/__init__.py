"""The token mixers: one small file each, one line of registration here.

A mixer is `prepare` (projections, convolution, normalisation, gates), the family of its op, and
`output` (norm, gate, projection). It never names a backend and never sees a loop: the model
joins the parts (docs/architecture.md).
"""

import inspect
import re

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
from tasks.names import Named

MIXERS: dict[str, type[LinearMixer] | type[AttentionMixer]] = Named(
    "mixer",
    {
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
    },
)
"""Every mixer by the name that a layer pattern uses."""

OWN_MIXERS = frozenset(MIXERS)
"""Those that come with the package; `register_mixer` adds others."""


def register_mixer(name: str, kind: type) -> None:
    """Make a mixer of one's own known to layer patterns in this process.

    From then on `LoopedConfig(pattern=name)` builds it, and presets, caches, analysers, checks and
    curricula treat it as any other. Fused decoding kernels leave it out. A second call with the
    same name replaces the first, so that a notebook's cell can be run again; models that were built
    before keep theirs. Processes that are started later do not know it.

    Args:
        name: The name: lower-case letters, digits and underscores, first a letter.
        kind: A class derived from `LinearMixer` or `AttentionMixer`, with `prepare` and `output`.

    Raises:
        ValueError: The name is malformed or one of the package's, or `kind` is no complete mixer.
    """
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None:
        raise ValueError(
            f"name: {name!r} is not allowed (must be lower-case letters, digits and underscores, "
            "first a letter)"
        )
    if name in OWN_MIXERS:
        raise ValueError(f"name: {name!r} is not allowed (must differ from the package's mixers)")
    if not issubclass(kind, LinearMixer | AttentionMixer):
        raise ValueError(f"kind: {kind!r} must be a class derived from LinearMixer, AttentionMixer")
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise ValueError(f"kind: {kind.__name__} is not allowed (must define {missing})")
    MIXERS[name] = kind
