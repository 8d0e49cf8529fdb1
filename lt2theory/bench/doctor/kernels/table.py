"""All kernels that the doctor checks: every module of `lt2theory.ops` that holds one is in here."""

from lt2theory.bench.doctor.kernels import decoding, recurrence, rows, sparse, sparse_decoding

KERNELS = (
    *recurrence.CHECKS,
    *rows.CHECKS,
    *sparse.CHECKS,
    *decoding.CHECKS,
    *sparse_decoding.CHECKS,
)
"""The checks: training, prompts, decoding."""
