"""Elementary functions as LLVM IR, without branches: of numbers, and of vectors.

A module calls a function by its `symbol` and contains the `declarations`, which tell LLVM's vectorizers of
the versions for vectors. When LLVM has optimized the module, the calls that are left are `called`, and
`source` returns their definitions, which then take the place of the calls. So no pass of LLVM works on the
long functions, and yet nothing is called when the program runs.

The definitions depend on every rounding: no attribute of the calling function may permit unsafe arithmetic,
and subnormal numbers must not be flushed to zero. Errors are at most 2 units in the last place; those of
logaddexp next to its zeros count beside the larger argument. `tools/elementary_accuracy.py` measures them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

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

__all__ = [
    "arity",
    "called",
    "constant_power",
    "declarations",
    "is_known",
    "length",
    "names",
    "source",
    "symbol",
]

LANES = {"f64": (2, 4, 8), "f32": (2, 4, 8, 16)}  # of the versions for vectors
_EFFECTS = "nounwind willreturn memory(none) speculatable"
_CALLED = re.compile(r"call [^\n]*?@(eo\.\w+\.f\d\d(?:\.v\d+)?)\(")

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


def is_known(name: str) -> bool:
    """Whether there is a function `name`: one of the `names`, or a power by a constant.

    Examples
    --------
    >>> is_known("pow"), is_known("pow_m5_halves"), is_known("gauss")
    (True, True, False)
    """
    return name in _FUNCTIONS or power.halves_of(name) is not None


def constant_power(halves: int) -> str:
    """Return the name of the function of x that is ``x**(halves / 2)``, for `halves` not near zero.

    Examples
    --------
    >>> constant_power(-5), arity(constant_power(-5))
    ('pow_m5_halves', 1)
    """
    return power.name_of(halves)


def _function(name: str) -> Callable[..., Value]:
    halves = power.halves_of(name)
    return _FUNCTIONS[name] if halves is None else lambda x: power.constant_power(x, halves)


def arity(name: str) -> int:
    """Return the number of arguments of the function `name`.

    Examples
    --------
    >>> arity("pow")
    2
    """
    return len(inspect.signature(_function(name)).parameters)


def symbol(name: str, dtype: str) -> str:
    """Return the LLVM name of the function `name` for the type `dtype`, "f64" or "f32".

    Examples
    --------
    >>> symbol("exp", "f64")
    '@eo.exp.f64'
    """
    return f"@eo.{name}.{dtype}"


def length(name: str, dtype: str) -> int:
    """Return how many instructions the function `name` has.

    Examples
    --------
    >>> length("sqrt", "f64")
    1
    """
    return len(_definition(name, dtype, LANES[dtype][-1]).lines)


def declarations(needed: Iterable[tuple[str, str]]) -> set[str]:
    """Return the lines by which a module knows the functions `needed`, in any order.

    Call it once for a module: if it needs any, one line says what LLVM must keep for the vectorizers.

    Parameters
    ----------
    needed : iterable of (name, dtype)
        `dtype` is "f64" or "f32".

    Examples
    --------
    >>> len(declarations([("exp", "f64")]))  # of exp, its three versions, what is kept, and a comment
    6
    """
    lines: set[str] = set()
    kept: list[str] = []
    for name, dtype in sorted(set(needed)):
        kind, count, own = FLOATS[dtype], arity(name), symbol(name, dtype)
        versions = {lanes: f"{own}.v{lanes}" for lanes in LANES[dtype]}
        variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * count}_{own[1:]}({v[1:]})" for n, v in versions.items())
        lines.add(
            f"declare {kind} {own}({', '.join([kind] * count)}) {_EFFECTS} "
            f'"vector-function-abi-variant"="{variants}"'
        )
        for lanes, version in versions.items():
            vector = f"<{lanes} x {kind}>"
            lines.add(f"declare {vector} {version}({', '.join([vector] * count)}) {_EFFECTS}")
        kept += versions.values()
    if kept:
        pointers = ", ".join(f"ptr {name}" for name in kept)
        lines.add(f"; with the elementary functions {_fingerprint()}")
        lines.add(
            f"@llvm.compiler.used = appending global [{len(kept)} x ptr] [{pointers}], "
            'section "llvm.metadata"'
        )
    return lines


def called(text: str) -> list[str]:
    """Return the functions, of numbers and of vectors, that are called in the text of a module.

    Examples
    --------
    >>> called("%y = tail call <8 x double> @eo.exp.f64.v8(<8 x double> %x)")
    ['eo.exp.f64.v8']
    """
    return sorted(set(_CALLED.findall(text)))


def source(functions: Iterable[str]) -> str:
    """Return a module that defines the `called` functions and all that they call, each once.

    The functions themselves are there to be put in the place of their calls alone.

    Returns
    -------
    str
        LLVM IR.

    Examples
    --------
    >>> print(source(["eo.sqrt.f64.v2"]))
    declare <2 x double> @llvm.sqrt.v2f64(<2 x double>)
    define available_externally <2 x double> @eo.sqrt.f64.v2(<2 x double> %x) alwaysinline {
      %v0 = call <2 x double> @llvm.sqrt.v2f64(<2 x double> %x)
      ret <2 x double> %v0
    }
    """
    codes = []
    for function in sorted(set(functions)):
        _, name, dtype, *lanes = function.split(".")
        codes.append(_definition(name, dtype, int(lanes[0][1:]) if lanes else 1))
    shared = {name: text for code in codes for name, text in code.globals.items()}
    declared = sorted(set().union(*(code.declared for code in codes)))
    return "\n".join([*declared, *shared.values(), *(code.text for code in codes)])


class _Definition(Code):
    text: str = ""


@functools.cache
def _definition(name: str, dtype: str, lanes: int) -> _Definition:
    """Return the written function with what it needs."""
    code, kind = _Definition(lanes), FLOATS[dtype]
    parameters = [f"%{p}" for p in inspect.signature(_function(name)).parameters]
    result = _function(name)(*(Value(code, kind, p) for p in parameters))
    arguments = ", ".join(f"{result.type} {p}" for p in parameters)
    own = symbol(name, dtype) + ("" if lanes == 1 else f".v{lanes}")
    head = f"define available_externally {result.type} {own}({arguments}) alwaysinline {{"
    code.text = "\n".join([head, *code.lines, f"  ret {result.type} {result.name}", "}"])
    return code


@functools.cache
def _fingerprint() -> str:
    """Return what is another text where the functions are others: what is compiled depends on them."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
