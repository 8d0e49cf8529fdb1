"""The looped model, its configuration, cache and presets."""

from lt2theory.models.cache import LoopCache as LoopCache
from lt2theory.models.config import LoopedConfig as LoopedConfig
from lt2theory.models.decoder import Decoder as Decoder
from lt2theory.models.depth import at_depth as at_depth
from lt2theory.models.generation import Generation as Generation
from lt2theory.models.generation import generate as generate
from lt2theory.models.leaving import LeavingStates as LeavingStates
from lt2theory.models.leaving import read_leaving as read_leaving
from lt2theory.models.loop_loss import LoopLoss as LoopLoss
from lt2theory.models.loop_loss import loop_loss as loop_loss
from lt2theory.models.looped import LoopedModel as LoopedModel
from lt2theory.models.pattern import LayerSpec as LayerSpec
from lt2theory.models.pattern import expand_pattern as expand_pattern
from lt2theory.models.preset import Preset as Preset
from lt2theory.models.presets import described_presets as described_presets
from lt2theory.models.presets import find_preset as find_preset
from lt2theory.models.presets import presets as presets
from lt2theory.models.presets import toys as toys
from lt2theory.models.reading import Reading as Reading
from lt2theory.models.reading import prefill as prefill
from lt2theory.models.sampling import Sampling as Sampling
from lt2theory.models.trace import LoopTrace as LoopTrace
