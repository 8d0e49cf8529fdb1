"""Language models on text: `lt2 train`, in one process or under torchrun."""

from lt2theory.training.lm.config import LmConfig as LmConfig
from lt2theory.training.lm.config import resolve as resolve
from lt2theory.training.lm.held_out import HeldOut as HeldOut
from lt2theory.training.lm.options import Execution as Execution
from lt2theory.training.lm.options import LmOptimiserConfig as LmOptimiserConfig
from lt2theory.training.lm.options import StabilityConfig as StabilityConfig
from lt2theory.training.lm.recipes import Recipe as Recipe
from lt2theory.training.lm.recipes import find_recipe as find_recipe
from lt2theory.training.lm.recipes import recipes as recipes
from lt2theory.training.lm.records import LmSummary as LmSummary
from lt2theory.training.lm.run import load_lm as load_lm
from lt2theory.training.lm.run import run_lm as run_lm
