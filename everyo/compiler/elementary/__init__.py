"""Elementary functions as LLVM IR: scalar, without branches, so that LLVM vectorizes loops with them.

`source` returns the text of the definitions; a module that contains it calls a function by its `symbol`.
The definitions depend on every rounding: no attribute of the calling function may permit unsafe arithmetic,
and subnormal numbers must not be flushed to zero. Errors are at most 2 units in the last place; those of
logaddexp next to its zeros count beside the larger argument. `tools/elementary_accuracy.py` measures them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable

from everyo.compiler.elementary import (
    digamma,
    error,
    exponential,
    gamma,
    hyperbolic,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from everyo.compiler.elementary.builder import FLOATS, Code, Value

__all__ = ["arity", "declarations", "names", "source", "symbol"]

_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **exponential.FUNCTIONS,
    **logarithm.FUNCTIONS,
    **hyperbolic.FUNCTIONS,
    **trigonometric.FUNCTIONS,
    **power.FUNCTIONS,
    **error.FUNCTIONS,
    **inverse.FUNCTIONS,
    **gamma.FUNCTIONS,
    **digamma.FUNCTIONS,
}


def names() -> tuple[str, ...]:
    """Return the names of the functions.

    Examples
    --------
    >>> "exp" in names()
    True
    """
    return tuple(_FUNCTIONS)


def arity(name: str) -> int:
    """Return the number of arguments of the function `name`.

    Examples
    --------
    >>> arity("pow")
    2
    """
    return len(inspect.signature(_FUNCTIONS[name]).parameters)


def symbol(name: str, dtype: str) -> str:
    """Return the LLVM name of the function `name` for the type `dtype`, "f64" or "f32".

    Examples
    --------
    >>> symbol("exp", "f64")
    '@eo.exp.f64'
    """
    return f"@eo.{name}.{dtype}"


def declarations(needed: Iterable[tuple[str, str]]) -> set[str]:
    """Return the ``declare`` lines of the intrinsics that the functions `needed` call.

    Examples
    --------
    >>> sorted(declarations([("sqrt", "f64")]))
    ['declare double @llvm.sqrt.f64(double)']
    """
    return set().union(*(_definition(*pair).declared for pair in needed))


def source(needed: Iterable[tuple[str, str]]) -> str:
    """Return the definitions of the functions `needed` and of all they call, each once.

    The declarations of intrinsics are not in it: see `declarations`. Call it once for a module, as it may
    define ``@llvm.compiler.used``.

    Parameters
    ----------
    needed : iterable of (name, dtype)
        `dtype` is "f64" or "f32".

    Returns
    -------
    str
        LLVM IR.

    Examples
    --------
    >>> print(source([("sqrt", "f64")]))
    define internal double @eo.sqrt.f64(double %x) alwaysinline nounwind {
      %v0 = call double @llvm.sqrt.f64(double %x)
      ret double %v0
    }
    """
    codes = [_definition(*pair) for pair in sorted(set(needed))]
    shared = {name: text for code in codes for name, text in code.globals.items()}
    kept = sorted(set().union(*(code.kept for code in codes)))
    if kept:  # or LLVM drops them before it vectorizes
        pointers = ", ".join(f"ptr {name}" for name in kept)
        shared["used"] = (
            f"@llvm.compiler.used = appending global [{len(kept)} x ptr] [{pointers}], "
            'section "llvm.metadata"'
        )
    return "\n".join([*shared.values(), *(code.text for code in codes)])


class _Definition(Code):
    text: str = ""


@functools.cache
def _definition(name: str, dtype: str) -> _Definition:
    """Return the written function with what it needs."""
    code, kind = _Definition(), FLOATS[dtype]
    parameters = [f"%{p}" for p in inspect.signature(_FUNCTIONS[name]).parameters]
    result = _FUNCTIONS[name](*(Value(code, kind, p) for p in parameters))
    arguments = ", ".join(f"{kind} {p}" for p in parameters)
    head = f"define internal {kind} {symbol(name, dtype)}({arguments}) alwaysinline nounwind {{"
    code.text = "\n".join([head, *code.lines, f"  ret {kind} {result.name}", "}"])
    return code
