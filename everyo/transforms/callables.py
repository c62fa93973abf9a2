"""What a transformation is given to transform: a function, and which of its arguments it differentiates."""

from __future__ import annotations

from typing import Any

from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, describe
from everyo.ops.axes import require_callable

_HABIT = "eo.autograd.grad(y, x) differentiates a computed tensor; eo.grad takes a function"
_OF_FUNCTIONS = {
    "grad": "eo.grad(f)(x)", "value_and_grad": "eo.value_and_grad(f)(x)", "vjp": "eo.vjp(f, x)",
    "jvp": "eo.jvp(f, (x,), (v,))", "linearize": "eo.linearize(f, x)", "jacrev": "eo.jacrev(f)(x)",
    "jacfwd": "eo.jacfwd(f)(x)", "jacobian": "eo.jacobian(f)(x)", "hessian": "eo.hessian(f)(x)",
    "hvp": "eo.hvp(f, x, v)", "vhp": "eo.vhp(f, x, v)", "sparse_jacobian": "eo.sparse_jacobian(f)(x)",
    "sparse_hessian": "eo.sparse_hessian(f)(x)",
}  # fmt: skip


def require_function(operation: str, *functions: Any) -> None:
    """Raise ArgumentError unless all that should be functions are callable."""
    call = _OF_FUNCTIONS.get(operation)
    remedies = (f"write {call}: a function f and its argument; {_HABIT}",) if call else ()
    for function in functions:
        require_callable(function, operation, *remedies)


def require_transformable(operation: str, function: Any, argnums: Any) -> None:
    """Raise ArgumentError unless a function is one and `argnums` are positions of its arguments."""
    require_function(operation, function)
    several = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    named = any(isinstance(one, str) for one in several)
    fractional = getattr(getattr(argnums, "dtype", None), "kind", "i") in "fc"
    if named or fractional or isinstance(argnums, (Tensor, dict)):
        raise ArgumentError(
            "argnums holds a name" if named else "argnums holds a value, not the position of an argument",
            operation=operation,
            expected="an int, or several",
            found=repr(argnums) if named else describe(argnums),
            remedy=f"write argnames={argnums!r}, and pass that argument by keyword"
            if named
            else f"write {_OF_FUNCTIONS[operation]}: the function first, then its arguments; {_HABIT}",
        )
