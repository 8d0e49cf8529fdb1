"""Functions on tensors: the linear recurrence and index-set attention, in several backends."""

from lt2theory.ops.attention import explain_attention as explain_attention
from lt2theory.ops.attention import run_attention as run_attention
from lt2theory.ops.attention import softmax_attention as softmax_attention
from lt2theory.ops.attention_reference import AttentionProblem as AttentionProblem
from lt2theory.ops.backends import ATTENTIONS as ATTENTIONS
from lt2theory.ops.backends import BACKENDS as BACKENDS
from lt2theory.ops.backends import RECURRENCES as RECURRENCES
from lt2theory.ops.factors import AttentionInputs as AttentionInputs
from lt2theory.ops.factors import FactorOrder as FactorOrder
from lt2theory.ops.factors import Factors as Factors
from lt2theory.ops.normalised import Stabilised as Stabilised
from lt2theory.ops.normalised import run_normalised as run_normalised
from lt2theory.ops.normalised import stabilise as stabilise
from lt2theory.ops.recurrence import explain_recurrence as explain_recurrence
from lt2theory.ops.recurrence import linear_recurrence as linear_recurrence
from lt2theory.ops.recurrence import run_factors as run_factors
from lt2theory.ops.reference import apply_factor as apply_factor
from lt2theory.ops.reference import state_dtype as state_dtype
