"""Our Triton kernels for the recurrence with at most one decay a head, forward and backward."""
