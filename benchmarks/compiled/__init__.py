"""Compiled functions against JAX, PyTorch and C++: ``python -m benchmarks.compiled``."""
