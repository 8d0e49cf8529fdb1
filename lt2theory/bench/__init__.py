"""Benchmarks: what is measured here is printed with its setting and the load of the machine."""
