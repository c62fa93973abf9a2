"""Linear systems without a matrix: conjugate gradients and GMRES on vectors, given the product alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ConvergenceError, describe
from everyo.ops.contraction import vecdot
from everyo.ops.ranges import arange
from everyo.transforms.raveling import Layout, ravel

Product = Callable[[Any], Any]
RESTART = 50  # GMRES keeps so many vectors


def dot(a: Tensor, b: Tensor) -> Any:
    """Return ``conj(a) @ b`` as a Python number."""
    return vecdot(a, b).item()


def norm(x: Tensor) -> float:
    """Return the Euclidean length of a vector, scaled so that no square overflows or vanishes."""
    scale = float(op.abs(x).max().item()) if x.size else 0.0
    return scale * abs(dot(x / scale, x / scale)) ** 0.5 if 0.0 < scale < float("inf") else scale


def tolerance(dtype: Any, rtol: float | None) -> float:
    """Return the relative residual to reach: by default nearly what the dtype can show."""
    return 64 * epsilon(dtype) if rtol is None else rtol


def epsilon(dtype: Any) -> float:
    """Return the spacing of numbers near 1."""
    single = {"f": 4, "c": 8}[dtype.kind]
    return 2.0**-10 if dtype.itemsize < single else 2.0**-23 if dtype.itemsize == single else 2.0**-52


def require_solved(product: Product, b: Tensor, x: Tensor, bound: float, operation: str) -> None:
    """Raise ConvergenceError unless the residual is below `bound`, relative to `b`."""
    residual, size = norm(b - product(x)), norm(b)
    if b.size and not size and not residual:  # a singular matrix would go unnoticed
        residual = 0.0 if norm(product(_probe(b))) > 0 else float("nan")
    if not residual <= bound * size or residual == float("inf"):
        raise ConvergenceError(
            "the linear system was not solved",
            operation=operation,
            inputs=describe(b),
            expected=f"a residual below {bound:.1e} of the right-hand side",
            found=f"{residual / size if 0 < size < float('inf') else residual:.1e}",
            remedy="it may be singular or ill-conditioned there; take a method that suits it: solve_cg is "
            "for symmetric positive definite matrices, solve_gmres for all; or pass one as solve=",
        )


def _probe(b: Tensor) -> Tensor:
    """Return a vector that no structure of a matrix is likely to be orthogonal to."""
    return op.astype(op.cos(arange(1.0, b.size + 1.0)), dtype=b.dtype)


def conjugate_gradients(product: Product, b: Tensor, rtol: float, steps: int) -> Tensor:
    """Return an approximate solution of a symmetric (Hermitian) positive definite system."""
    size = norm(b)
    if size == 0:
        return b
    x, r = op.zeros_like(b), b / size  # of length 1, so that no square underflows
    p, square = r, abs(dot(r, r))
    for _ in range(steps):
        if not square > rtol * rtol:  # NaN ends it too
            break
        image = product(p)
        curvature = dot(p, image)
        if curvature == 0:
            break
        alpha = square / curvature
        x, r = x + alpha * p, r - alpha * image
        before, square = square, abs(dot(r, r))
        p = r + (square / before) * p
    return x * size


def gmres(product: Product, b: Tensor, rtol: float, steps: int, restart: int = RESTART) -> Tensor:
    """Return an approximate solution of any nonsingular system; restarts after `restart` vectors."""
    x, r = op.zeros_like(b), b
    target, size, done = rtol * norm(b), norm(b), 0
    while size > target and done < steps:
        change, count = _cycle(product, r, size, target, min(restart, b.size, steps - done))
        done += count
        x = x + change
        before, r = size, b - product(x)
        size = norm(r)
        if not size < 0.9999 * before:  # it no longer makes progress
            break
    return x


def _cycle(product: Product, r: Tensor, size: float, target: float, limit: int) -> tuple[Tensor, int]:
    """Return the best change of the solution from the Krylov space of `r`, and its dimension."""
    basis, columns, rhs = [r / size], [], [complex(size)]
    rotations: list[tuple[float, complex]] = []
    for k in range(limit):
        w, column = product(basis[k]), [0j] * (k + 1)
        for _ in range(2):  # the second time removes what rounding left
            for i, q in enumerate(basis):
                h = dot(q, w)
                column[i] += h
                w = w - h * q
        length = norm(w)
        for i, (c, s) in enumerate(rotations):
            following = column[i + 1] if i + 1 < len(column) else 0j
            turned = c * following - s.conjugate() * column[i]
            column[i], column[i + 1] = c * column[i] + s * following, turned
        c, s = _rotation(column[k], length)
        rotations.append((c, s))
        column[k] = c * column[k] + s * length
        columns.append(column)
        rhs[k : k + 1] = [c * rhs[k], -s.conjugate() * rhs[k]]
        if abs(rhs[k + 1]) <= target or length <= 1e-300 or column[k] == 0:
            break
        basis.append(w / length)
    n = len(columns)
    y = [0j] * n
    for i in reversed(range(n)):
        known = sum(columns[j][i] * y[j] for j in range(i + 1, n))
        y[i] = (rhs[i] - known) / columns[i][i] if columns[i][i] else 0j
    real = r.dtype.kind == "f"
    change = op.zeros_like(r)
    for coefficient, q in zip(y, basis, strict=False):
        change = change + (coefficient.real if real else coefficient) * q
    return change, n


def _rotation(a: complex, b: float) -> tuple[float, complex]:
    """Return the rotation that takes ``(a, b)`` to ``(r, 0)``: its cosine, and its sine."""
    if b == 0:
        return 1.0, 0j
    if a == 0:
        return 0.0, 1 + 0j
    size = (abs(a) ** 2 + b * b) ** 0.5
    return abs(a) / size, a / abs(a) * b / size


def normal_equations(product: Product, transpose: Product, b: Tensor, rtol: float, steps: int) -> Tensor:
    """Return an approximate solution by conjugate gradients on ``A^H A x = A^H b``."""

    def adjoint(w: Tensor) -> Tensor:
        return op.conj(transpose(op.conj(w))) if w.dtype.kind == "c" else transpose(w)

    return conjugate_gradients(lambda v: adjoint(product(v)), adjoint(b), rtol, steps)


def either(b: Tensor, product: Product, transpose: Product) -> Tensor:
    """Return the solution by GMRES, or where that stagnates by the normal equations."""
    rtol, steps = tolerance(b.dtype, None), 10 * b.size + 100
    x = gmres(product, b, rtol, steps)
    if norm(b - product(x)) <= accepted(b.dtype) * norm(b):
        return x
    return normal_equations(product, transpose, b, rtol, steps)


def accepted(dtype: Any, rtol: float | None = None) -> float:
    """Return the largest relative residual that counts as solved."""
    return max(epsilon(dtype) ** (1 / 3), 10 * (rtol or 0.0))


def on_vectors(product: Callable[[list[Tensor]], Sequence[Tensor]], like: list[Tensor]) -> Product:
    """Return a product of lists of tensors as one of vectors."""
    layout = Layout(like)
    return lambda v: ravel(list(product(layout.unravel(v))))
