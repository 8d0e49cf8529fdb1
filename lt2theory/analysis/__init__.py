"""What is measured on looped models, and the operators that the theory is about."""

from lt2theory.analysis.composition import compose_factors as compose_factors
from lt2theory.analysis.composition import correction_spectrum as correction_spectrum
from lt2theory.analysis.grouping import group_by_input as group_by_input
from lt2theory.analysis.influence import Influence as Influence
from lt2theory.analysis.influence import measured_influence as measured_influence
from lt2theory.analysis.influence_law import distance_quantile as distance_quantile
from lt2theory.analysis.influence_law import fitted_residual as fitted_residual
from lt2theory.analysis.influence_law import influence_law as influence_law
from lt2theory.analysis.influence_law import influence_mean as influence_mean
from lt2theory.analysis.influence_law import influence_std as influence_std
from lt2theory.analysis.operators import DPLROperator as DPLROperator
from lt2theory.analysis.rank import RankKind as RankKind
from lt2theory.analysis.rank import effective_rank as effective_rank
from lt2theory.analysis.rank import numerical_rank as numerical_rank
from lt2theory.analysis.receptive_field import layer_graph as layer_graph
from lt2theory.analysis.receptive_field import reach as reach
from lt2theory.analysis.receptive_field import reach_graph as reach_graph
from lt2theory.analysis.receptive_field import selection_graph as selection_graph
from lt2theory.analysis.receptive_field import selection_reach as selection_reach
from lt2theory.analysis.transitions import MEANINGS as MEANINGS
from lt2theory.analysis.transitions import ComposedFactors as ComposedFactors
from lt2theory.analysis.transitions import composed_factors as composed_factors
from lt2theory.analysis.transitions import loop_spectrum as loop_spectrum
from lt2theory.analysis.transitions import loop_transitions as loop_transitions
