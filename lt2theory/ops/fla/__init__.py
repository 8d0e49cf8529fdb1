"""The linear recurrence by the Triton kernels of flash-linear-attention (FLA)."""
