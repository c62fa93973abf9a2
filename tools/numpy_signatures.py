"""List the arguments that NumPy's functions have and ours of the same name lack.

``python tools/numpy_signatures.py`` prints them, function by function, and exits 1 if there are any beyond
those left out below, with the reason. Ufuncs are not compared: their options (``where``, ``dtype``, ...) say
how a result is written to ``out``, or are a call of `eo.where` or `astype`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import everyo as eo

NAMESPACES = {"": (np, eo), "linalg.": (np.linalg, eo.linalg), "fft.": (np.fft, eo.fft)}
# Left out everywhere: how a call is carried out in memory, which has no meaning for a tensor.
LEFT_OUT = {
    "casting": "dtypes follow the promotion rules; `dtype` and `astype` convert",
    "kind": "sorting is stable, whatever the algorithm",
    "like": "tensors come from this library",
    "order": "tensors have no memory order",
    "out": "results are tensors of their own; write x[...] = value",
    "overwrite_input": "inputs never change",
    "subok": "there are no subclasses of tensors",
}
# Left out of single functions.
_SHAPE = "`eo.zeros(shape, dtype=x.dtype)` and its relatives"
EXCEPTIONS = {
    **{(f"{name}_like", "shape"): _SHAPE for name in ("empty", "full", "ones", "zeros")},
    ("clip", "a_max"): "NumPy's older name of `max`",
    ("clip", "a_min"): "NumPy's older name of `min`",
    ("eye", "M"): "the second argument",
    ("meshgrid", "copy"): "results are tensors of their own",
    ("unique", "sorted"): "they are sorted, as by default in NumPy",
}


def missing() -> Iterator[tuple[str, str]]:
    """Yield the name of each function and an argument that it lacks, but for those left out."""
    for prefix, (theirs, ours) in NAMESPACES.items():
        for name in sorted(set(dir(theirs)) & set(dir(ours))):
            function, own = getattr(theirs, name), getattr(ours, name)
            if name.startswith("_") or isinstance(function, (type, np.ufunc)) or not callable(function):
                continue
            for argument in _lacking(function, own):
                if argument not in LEFT_OUT and (prefix + name, argument) not in EXCEPTIONS:
                    yield prefix + name, argument


def _lacking(function: Callable[..., Any], own: Callable[..., Any]) -> list[str]:
    """Return the arguments of NumPy's function that ours has neither by name nor as an operand."""
    ours = inspect.signature(own).parameters
    operands = [
        p for p in ours.values() if p.default is p.empty and p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
    ]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in ours.values())
    found = []
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        operand = position < len(operands) or (variadic and parameter.default is parameter.empty)
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and not operand and parameter.name not in ours:
            found.append(parameter.name)
    return found


def main() -> int:
    lacking = list(missing())
    for name, argument in lacking:
        print(f"{name}: {argument}")
    return int(bool(lacking))


if __name__ == "__main__":
    sys.exit(main())
