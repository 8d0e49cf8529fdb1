"""What is measured on looped models, and the operators that the theory is about."""

from lt2theory.analysis.operators import DPLROperator as DPLROperator
from lt2theory.analysis.operators import compose_factors as compose_factors
from lt2theory.analysis.rank import RankKind as RankKind
from lt2theory.analysis.rank import effective_rank as effective_rank
from lt2theory.analysis.rank import numerical_rank as numerical_rank
