"""Implicit differentiation: derivatives of a solver's answer that never look at how it was found.

If ``F(x, p) = 0`` defines x, then ``dF/dx @ dx + dF/dp @ dp = 0``. So a derivative of x costs one linear
system with the matrix ``A = dF/dx`` (forward) or its transpose (reverse), solved by products with A alone.
The rules consist of differentiable operations, and in them x is again the solution: derivatives of any
order follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.functions import Transformed
from everyo.core.modes import switched
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, ShapeError, UnsupportedOperationError, describe
from everyo.ops.creation import as_tensor, zeros
from everyo.transforms import krylov
from everyo.transforms.callables import require_function
from everyo.transforms.carry import differentiated, leaf_names, same_leaves, same_structure, tensors_of
from everyo.transforms.programs import program_of
from everyo.transforms.systems import Jacobian, Linear, root, solution
from everyo.transforms.trees import differentiable, flatten, parted, tree_map, unflatten

__all__ = [
    "custom_fixed_point",
    "custom_linear_solve",
    "custom_root",
    "solve_cg",
    "solve_gmres",
    "solve_normal_cg",
]

Function = Callable[..., Any]


def custom_root(
    optimality_fun: Function, *, has_aux: bool = False, solve: Function | None = None
) -> Callable[[Function], Function]:
    """Return a decorator that gives a root finder the derivatives of the root.

    With ``F = optimality_fun`` and ``F(x, *params) = 0``, the derivative with respect to the parameters is
    ``dx = -(dF/dx)^-1 @ dF/dp @ dp``, whatever the solver does, in both directions and to any order. The
    gradient of a function may be the F: then the solver minimizes it.

    Parameters
    ----------
    optimality_fun : callable
        ``F(x, *params)`` returns a pytree like x. Tensors that it captures get their derivatives too.
    has_aux : bool, default False
        The solver returns ``(x, aux)``; `aux` is passed on without a derivative.
    solve : callable, optional
        ``solve(matvec, b)`` solves the linear systems of the derivatives, with ``dF/dx`` and with its
        transpose; for example `solve_cg` where ``dF/dx`` is symmetric positive definite. By default GMRES,
        and where it stagnates conjugate gradients on the normal equations.

    Returns
    -------
    callable
        Takes ``solver(init, *params)``, which returns x, real tensors in a pytree, and gives a function of
        the same arguments. Nothing inside the solver is differentiated, nor is `init`. Keyword arguments
        go to the solver alone. Under `vmap` the solver itself runs on the batch: write its loop with
        `while_loop`.

    Raises
    ------
    ConvergenceError
        When a derivative is computed and its linear system cannot be solved, as where ``dF/dx`` is singular.
    ShapeError, DTypeError
        If F returns something else than a tree like x, or x is not real.

    Examples
    --------
    >>> import everyo as eo
    >>> @eo.implicit.custom_root(lambda x, a: x**3 - a)
    ... def cube_root(x, a):
    ...     for _ in range(50):
    ...         x = x - (x**3 - a) / (3 * x**2)
    ...     return x
    >>> a = eo.tensor(8.0)
    >>> round(eo.grad(cube_root, argnums=1)(eo.tensor(1.0), a).item(), 5)  # 1/3 * 8**(-2/3)
    0.08333
    >>> eo.grad(cube_root)(eo.tensor(1.0), a).item()  # the start does not matter
    0.0
    """

    require_function("custom_root", optimality_fun)

    def decorator(solver: Function) -> Function:
        require_function("custom_root", solver)

        def solved(init: Any, *params: Any, **options: Any) -> Any:
            _refuse_options(options)
            numeric, filled = parted(params, _is_numeric)
            given = [as_tensor(x) for x in numeric]
            constants = [_constant(x) for x in given]
            with switched(grad=False):
                found = solver(tree_map(_constant, init), *filled(constants), **options)
            found, aux = found if has_aux else (found, None)
            xs, form = tensors_of(found)
            if not xs:
                raise ShapeError(
                    "the solver returned nothing",
                    operation="custom_root",
                    expected="the solution: a tensor, or a tree of tensors",
                    found=type(found).__name__,
                    remedy="return x",
                )
            xs = [_constant(x) for x in differentiable(xs, "custom_root")]
            _refuse_complex(xs)

            def residual(values: list[Tensor]) -> list[Tensor]:
                x = unflatten(form, values[: len(xs)])
                out, out_form = tensors_of(optimality_fun(x, *filled(values[len(xs) :])))
                same_structure(out_form, form, "custom_root", "the residual, compared with x,")
                return out

            with switched(grad=True):
                program, captured, values = program_of(residual, [*xs, *constants])
            same_leaves(values, xs, leaf_names(form, "optimality_fun(x)"), "custom_root")
            system = Jacobian(program, len(xs), _on_trees(solve, form), "custom_root")
            roots = root(*xs, *given, *captured, system=system)
            x = unflatten(form, list(roots))
            return (x, tree_map(_constant, aux)) if has_aux else x

        options = {"optimality_fun": optimality_fun, "has_aux": has_aux, "solve": solve}
        return Transformed(solved, solver, with_root, **options)

    return decorator


def with_root(solver: Function, optimality_fun: Function, **options: Any) -> Function:
    """Return what `custom_root` makes of a solver; what a pickle of it calls."""
    return custom_root(optimality_fun, **options)(solver)


def custom_fixed_point(
    fixed_point_fun: Function, *, has_aux: bool = False, solve: Function | None = None
) -> Callable[[Function], Function]:
    """Return a decorator that gives a fixed-point solver the derivatives of the fixed point.

    With ``T = fixed_point_fun`` and ``x = T(x, *params)`` the derivative with respect to the parameters is
    ``dx = (I - dT/dx)^-1 @ dT/dp @ dp``.

    Parameters
    ----------
    fixed_point_fun : callable
        ``T(x, *params)`` returns a pytree like x.
    has_aux, solve
        As for `custom_root`; the matrix is ``dT/dx - I``.

    Returns
    -------
    callable
        As for `custom_root`.

    Raises
    ------
    ConvergenceError, ShapeError, DTypeError
        As for `custom_root`.

    Examples
    --------
    >>> import everyo as eo
    >>> @eo.implicit.custom_fixed_point(lambda x, a: eo.cos(a * x))
    ... def fixed_point(x, a):
    ...     return eo.fori_loop(0, 60, lambda i, x: eo.cos(a * x), x)
    >>> round(eo.grad(fixed_point, argnums=1)(eo.tensor(0.5), eo.tensor(1.0)).item(), 4)
    -0.2975
    """

    require_function("custom_fixed_point", fixed_point_fun)

    return custom_root(functools.partial(_step, fixed_point_fun), has_aux=has_aux, solve=solve)


def _step(fixed_point_fun: Function, x: Any, *params: Any) -> Any:
    """Return how far x is from a fixed point."""
    return tree_map(op.subtract, fixed_point_fun(x, *params), x)


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
) -> Any:
    """Solve ``A x = b`` for x by any method, with the derivatives of the exact solution.

    ``dx = A^-1 @ (db - dA @ x)``, and in reverse mode ``w = A^-T @ g`` is the cotangent of b. A is given by
    its product with a vector; what `matvec` captures (the elements of A) gets its derivative too.

    Parameters
    ----------
    matvec : callable
        ``matvec(x)`` returns ``A @ x``, a pytree like b. It must be linear.
    b : pytree of tensors
        The right-hand side.
    solve : callable
        ``solve(matvec, b)`` returns x. It must rely on its arguments alone, not on captured tensors that are
        differentiated or mapped over. It is called on one example, outside of all transformations.
    transpose_solve : callable, optional
        ``transpose_solve(vecmat, b)`` solves with the transpose, given its product. By default GMRES, and
        where that stagnates conjugate gradients on the normal equations; `solve` if `symmetric`.
    symmetric : bool, default False
        A equals its transpose.

    Returns
    -------
    pytree of tensors
        The solution, like b.

    Raises
    ------
    ConvergenceError
        When a derivative is computed and its linear system was not solved.
    ShapeError, DTypeError
        If `matvec` or `solve` returns something else than a tree like b.
    UnsupportedOperationError
        If `matvec` is not linear or decides on the values of its vector, or `solve` captures a
        differentiated tensor.

    Examples
    --------
    >>> import everyo as eo
    >>> def ridge(penalty, X, y):
    ...     matvec = lambda w: X.T @ (X @ w) + penalty * w
    ...     cg = eo.implicit.solve_cg
    ...     return eo.implicit.custom_linear_solve(matvec, X.T @ y, cg, symmetric=True)
    >>> X, y = eo.tensor([[1.0], [1.0]]), eo.tensor([2.0, 4.0])
    >>> ridge(eo.tensor(1.0), X, y).item()  # 6 / (2 + penalty)
    2.0
    >>> round(eo.grad(lambda p: ridge(p, X, y).sum())(1.0).item(), 4)
    -0.6667
    """
    require_function("custom_linear_solve", matvec, solve)
    leaves, form = tensors_of(b)
    forward = _on_trees(solve, form)
    backward = forward if symmetric else _on_trees(transpose_solve, form)
    return _linear_solve(matvec, leaves, form, forward, backward, symmetric, "custom_linear_solve")


def solve_cg(matvec: Function, b: Any, *, rtol: float | None = None, max_steps: int | None = None) -> Any:
    """Solve ``A x = b`` by conjugate gradients, for a symmetric positive definite A; differentiable.

    Parameters
    ----------
    matvec : callable
        ``matvec(x)`` returns ``A @ x``, a pytree like b.
    b : pytree of tensors
        The right-hand side.
    rtol : float, optional
        The residual to reach, relative to b; by default close to the dtype's precision.
    max_steps : int, optional
        The most products with A; by default 10 times the number of unknowns.

    Returns
    -------
    pytree of tensors
        The solution, with the derivatives of the exact one (`custom_linear_solve`).

    Raises
    ------
    ConvergenceError
        If the tolerance is not reached.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.implicit.solve_cg(lambda x: 2 * x, eo.tensor([2.0, 4.0])))
    [1. 2.]
    """
    return _solved(matvec, b, _alone(krylov.conjugate_gradients), rtol, max_steps, "solve_cg", symmetric=True)


def solve_gmres(matvec: Function, b: Any, *, rtol: float | None = None, max_steps: int | None = None) -> Any:
    """Solve ``A x = b`` by GMRES, restarted after 50 vectors, for any nonsingular A; differentiable.

    Parameters
    ----------
    matvec, b, rtol, max_steps
        As for `solve_cg`.

    Returns
    -------
    pytree of tensors
        The solution, with the derivatives of the exact one (`custom_linear_solve`).

    Raises
    ------
    ConvergenceError
        If the tolerance is not reached.

    Examples
    --------
    >>> import everyo as eo
    >>> A = eo.tensor([[0.0, 2.0], [-1.0, 0.0]])
    >>> print(eo.round(eo.implicit.solve_gmres(lambda x: A @ x, eo.tensor([2.0, 3.0]))))
    [-3.  1.]
    """
    return _solved(matvec, b, _alone(krylov.gmres), rtol, max_steps, "solve_gmres")


def solve_normal_cg(
    matvec: Function, b: Any, *, rtol: float | None = None, max_steps: int | None = None
) -> Any:
    """Solve ``A x = b`` by conjugate gradients on ``A^H A x = A^H b``, for any nonsingular A; differentiable.

    The product with the transpose comes from a vjp of `matvec`.

    Parameters
    ----------
    matvec, b, rtol, max_steps
        As for `solve_cg`.

    Returns
    -------
    pytree of tensors
        The solution, with the derivatives of the exact one (`custom_linear_solve`).

    Raises
    ------
    ConvergenceError
        If the tolerance is not reached.

    Examples
    --------
    >>> import everyo as eo
    >>> A = eo.tensor([[0.0, 2.0], [-1.0, 0.0]])
    >>> print(eo.round(eo.implicit.solve_normal_cg(lambda x: A @ x, eo.tensor([2.0, 3.0]))))
    [-3.  1.]
    """
    return _solved(matvec, b, krylov.normal_equations, rtol, max_steps, "solve_normal_cg")


def _alone(method: Function) -> Function:
    """Return a method that needs no product with the transpose as one that is given it."""
    return lambda product, transpose, *rest: method(product, *rest)


def _solved(
    matvec: Function,
    b: Any,
    method: Function,
    rtol: float | None,
    max_steps: int | None,
    operation: str,
    symmetric: bool = False,
) -> Any:
    """Solve by a Krylov method, with derivatives from systems solved in the same way."""
    require_function(operation, matvec)

    def solver(forward: Function, transpose: Function, b: list[Tensor]) -> list[Tensor]:
        vector = krylov.ravel(b)
        products = krylov.on_vectors(forward, b), krylov.on_vectors(transpose, b)
        steps = 10 * vector.size + 10 if max_steps is None else max_steps
        x = method(*products, vector, krylov.tolerance(vector.dtype, rtol), steps)
        krylov.require_solved(products[0], vector, x, krylov.accepted(vector.dtype, rtol), operation)
        return krylov.Layout(b).unravel(x)

    return _linear_solve(matvec, *tensors_of(b), solver, solver, symmetric, operation)


def _linear_solve(
    matvec: Function,
    leaves: list[Tensor],
    form: Any,
    solver: Function | None,
    transposed: Function | None,
    symmetric: bool,
    operation: str,
) -> Any:
    """Record the product as a program, and solve with what it captures as coefficients."""
    leaves = differentiable(leaves, operation)

    def product(values: list[Tensor]) -> list[Tensor]:
        out, out_form = tensors_of(matvec(unflatten(form, values)))
        same_structure(out_form, form, operation, "the product, compared with b,")
        return out

    origin = [zeros(x.shape, dtype=x.dtype, device=x.device) for x in leaves]
    with switched(grad=True):
        program, captured, values = program_of(product, origin, operation)
    same_leaves(values, leaves, leaf_names(form, "matvec(b)"), operation)
    system = Linear(program, len(leaves), solver, operation, transposed, symmetric)
    return unflatten(form, list(solution(*leaves, *captured, system=system, checked=False)))


def _on_trees(solve: Function | None, form: Any) -> Function | None:
    """Return the user's ``solve(matvec, b)`` as a function of products and of the leaves of b."""
    if solve is None:
        return None

    def solver(product: Function, transpose: Function, b: list[Tensor]) -> list[Tensor]:
        def matvec(tree: Any) -> Any:
            return unflatten(form, product(tensors_of(tree)[0]))

        leaves, found = tensors_of(solve(matvec, unflatten(form, b)))
        same_structure(found, form, "solve", "the solution")
        return leaves

    return solver


def _constant(x: Any) -> Any:
    """Return a leaf without its derivatives; what is no number stays."""
    return op.stop_gradient(as_tensor(x)) if _is_numeric(x) else x


def _is_numeric(x: Any) -> bool:
    return isinstance(x, (Tensor, int, float, complex)) or hasattr(x, "__array__")


def _refuse_options(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if any(isinstance(x, Tensor) and differentiated(x) for x in flatten(value)[0]):
            raise UnsupportedOperationError(
                f"the solver's option {name!r} is differentiated, but only parameters are",
                operation="custom_root",
                expected="options that do not depend on what is differentiated",
                found="a tensor that carries a derivative",
                remedy="pass it by position, as a parameter of the optimality function",
            )


def _refuse_complex(xs: Sequence[Tensor]) -> None:
    for x in xs:
        if x.dtype.kind == "c":
            raise DTypeError(
                "the root is complex",
                operation="custom_root",
                inputs=describe(x),
                expected="real tensors",
                found=str(x.dtype),
                remedy="solve for its real and imaginary parts, as two tensors",
            )
