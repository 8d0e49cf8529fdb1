"""Our Triton kernels beside the ops: of a decode step (one token a row), and of a training step."""
