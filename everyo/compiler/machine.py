"""What the code generator knows of this machine: how wide its vectors are and how many it has."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from everyo.compiler.native import llvm, require


class Vectors(NamedTuple):
    """Vector registers: their size in bytes, their number, and whether there are registers of masks."""

    size: int
    number: int
    masks: bool = False

    def lanes(self, dtype: Any) -> int:
        """Return how many elements a register holds."""
        return self.size // np.dtype(dtype).itemsize


@functools.cache
def vectors() -> Vectors:
    """Return the vector registers of this machine's processor."""
    require()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return Vectors(64, 32, masks=True)
    if features.get("avx"):
        return Vectors(32, 16)
    return Vectors(16, 32 if features.get("neon") else 16)


@functools.cache
def converts_halves() -> bool:
    """Whether this machine's processor has instructions between float16 and float32."""
    require()
    features = llvm.get_host_cpu_features()
    return bool(features.get("f16c") or features.get("neon"))
