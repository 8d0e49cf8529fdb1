"""Our own Triton kernels, each one alone against plain torch in float64."""
