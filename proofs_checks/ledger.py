"""The ledger: every claim, group by group, in the order of docs/theory.md."""

import importlib
from functools import cache

from proofs_checks.claim import Claim

GROUPS = (
    "rank_wy",
    "rank_orthogonal",
    "rank_bounds",
    "rank_collapse",
    "rank_exact",
    "rank_scalar_gates",
    "rank_diagonal_gates",
    "rank_same_key",
    "rank_gated_wy",
    "rank_gated_products",
    "rank_gated_failures",
    "rank_no_erasure",
    "rank_baselines",
    "rank_counts",
    "rank_tokens",
    "rank_volume",
    "rank_random_volume",
    "express_reflections",
    "express_permutations",
    "express_words",
    "express_long_words",
    "express_determinant",
    "express_spectrum",
    "express_flips",
    "express_two_factors",
    "express_trap",
    "express_commuting",
    "express_writes",
    "express_rotations",
    "express_rotation_words",
    "express_representations",
    "express_one_factor",
    "express_heads",
    "express_generators",
    "express_leaky",
    "express_characters",
    "semiseparable",
    "semiseparable_model",
    "loop_product",
    "loop_gates",
    "loop_carry",
    "rescan_words",
    "loop_models",
    "loop_caches",
    "reach_windows",
    "reach_influence",
    "reach_selection",
    "reach_indices",
    "reach_measured",
    "stability",
    "stability_gate",
    "cost",
    "cache_size",
    "cache_states",
    "memory_interference",
    "memory_recall",
    "memory_decay",
    "memory_state",
    "memory_growth",
    "memory_growth_runs",
    "output_gate",
    "recall_floors",
    "recall_pass_mark",
)
"""Modules of the ledger; each holds a tuple `CLAIMS`."""


@cache
def ledger() -> tuple[Claim, ...]:
    """Every claim.

    Returns:
        The claims in the order of their groups.
    """
    modules = (importlib.import_module(f"proofs_checks.{group}") for group in GROUPS)
    return tuple(claim for module in modules for claim in module.CLAIMS)
