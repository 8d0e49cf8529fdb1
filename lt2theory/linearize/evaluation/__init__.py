"""How much of its teacher a student has kept: recovery, recall, text, states, speed, zero-shot."""

from lt2theory.linearize.evaluation.evaluate import PARTS as PARTS
from lt2theory.linearize.evaluation.evaluate import evaluate_pair as evaluate_pair
from lt2theory.linearize.evaluation.order import mixer_order as mixer_order
from lt2theory.linearize.evaluation.order import recovered_share as recovered_share
from lt2theory.linearize.evaluation.pair import EvaluationConfig as EvaluationConfig
from lt2theory.linearize.evaluation.pair import Pair as Pair
from lt2theory.linearize.evaluation.table import Measured as Measured
from lt2theory.linearize.evaluation.table import measured_table as measured_table
