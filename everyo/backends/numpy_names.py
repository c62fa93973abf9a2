"""What a function of NumPy or SciPy is called, where it comes from and what its parameters are."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

# Where a function may come from, and the name of the namespace here that has its counterpart.
_ORIGINS = {
    "numpy": "",
    "numpy.linalg": "linalg",
    "numpy.fft": "fft",
    "numpy.lib.stride_tricks": "",
    "scipy.special": "special",
}

# The signatures of NumPy's functions in C; older versions do not tell them.
_IN_C: dict[str, Callable[..., None]] = {
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "concat": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "where": lambda condition, x=None, y=None, /: None,
    "dot": lambda a, b, out=None: None,
    "vdot": lambda a, b, /: None,
    "inner": lambda a, b, /: None,
    "lexsort": lambda keys, axis=-1: None,
    "bincount": lambda x, /, weights=None, minlength=0: None,
    "copyto": lambda dst, src, casting="same_kind", where=True: None,
    "empty_like": lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
    "unravel_index": lambda indices, shape, order="C": None,
    "ravel_multi_index": lambda multi_index, dims, mode="raise", order="C": None,
    "can_cast": lambda from_, to, casting="safe": None,
    "min_scalar_type": lambda a, /: None,
    "result_type": lambda *arrays_and_dtypes: None,
    "may_share_memory": lambda a, b, /, max_work=0: None,
    "shares_memory": lambda a, b, /, max_work=-1: None,
    "putmask": lambda a, /, mask, values: None,
    "packbits": lambda a, /, axis=None, bitorder="big": None,
    "unpackbits": lambda a, /, axis=None, count=None, bitorder="big": None,
}

no_value = np._NoValue  # what NumPy's functions take for an argument left out


@functools.lru_cache(maxsize=1024)
def origin(function: Any) -> tuple[str, str] | None:
    """Return the namespace ("" for NumPy's own, "linalg", "fft", "special") and name of a function.

    None for a function of any other library, such as a ufunc that a user has made.
    """
    name = getattr(function, "__name__", "")
    for module, namespace in _ORIGINS.items():
        if getattr(sys.modules.get(module), name, None) is function:
            return namespace, name
    return None


@functools.cache
def signature(function: Any) -> inspect.Signature:
    """Return the signature of a function of NumPy."""
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(_IN_C.get(function.__name__, lambda *args, **options: None))
