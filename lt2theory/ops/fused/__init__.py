"""Triton kernels of a decode step: one token a row, weights read once, states updated in place."""
