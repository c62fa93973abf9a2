"""Derivatives of the square root and the logarithm of one matrix, found in its Schur basis."""

from __future__ import annotations

import math
from typing import Any

from everyo.core.dtypes import complex128, float64

BLOCK = 64  # rows from which on a Sylvester equation is split
NODES = 16  # of the Gauss-Legendre rule that the approximant of the logarithm is
RADIUS = 0.6  # so far from 1 that approximant, and its derivative, are exact to the last digits
CORE = 0.02  # eigenvalues so near to 1 need no norm of the rest
ROOTS = 100  # at most; sixteen take the largest float to 1.02


def solved_sylvester(xp: Any, x: Any, e: Any) -> Any:
    """Return y with ``x @ y + y @ x = e``; NaN where two eigenvalues of `x` have the sum zero.

    One Schur decomposition makes the equation triangular (R. Bartels and G. Stewart, 1972).
    """
    t, q = xp.scipy_linalg.schur(x, check_finite=False)
    values = xp.linalg.diagonal(t) + 0j
    if t.dtype.kind != "c":  # pairs of conjugate ones stand in blocks of two rows
        below = xp.linalg.diagonal(t, offset=-1)
        turn = 1j * xp.sqrt(xp.abs(below * xp.linalg.diagonal(t, offset=1)) * (below != 0))
        values[:-1] += turn
        values[1:] -= turn
    least = xp.amin(xp.abs(values[:, None] + values))
    if least <= 10 * len(x) * xp.finfo(t.dtype).eps * xp.amax(xp.abs(values)):
        return xp.full_like(e, math.nan)  # there is no derivative
    inverse = xp.matrix_transpose(xp.conj(q))
    return q @ _triangular_sylvester(xp, t, t, inverse @ e @ q) @ inverse


def _triangular_sylvester(xp: Any, a: Any, b: Any, c: Any) -> Any:
    """Return y with ``a @ y + y @ b = c`` for Schur forms (I. Jonsson and B. Kågström, 2002)."""
    rows, columns = c.shape
    if max(rows, columns) <= BLOCK:
        y, scale, changed = xp.lapack("trsyl", a, b, c)  # a sum far below the largest element is made larger
        if not changed or max(rows, columns) <= 2:
            return y / scale
    out = xp.empty_like(c)
    if rows >= columns:
        k = _half(a)
        out[k:] = _triangular_sylvester(xp, a[k:, k:], b, c[k:])
        out[:k] = _triangular_sylvester(xp, a[:k, :k], b, c[:k] - a[:k, k:] @ out[k:])
    else:
        k = _half(b)
        out[:, :k] = _triangular_sylvester(xp, a, b[:k, :k], c[:, :k])
        out[:, k:] = _triangular_sylvester(xp, a, b[k:, k:], c[:, k:] - out[:, :k] @ b[:k, k:])
    return out


def _half(t: Any) -> int:
    """Return where to split a Schur form: about the middle, but through no block of two rows."""
    k = len(t) // 2
    return k + bool(t[k, k - 1] != 0)


def logarithm_along(xp: Any, x: Any, e: Any) -> Any:
    """Return the derivative of the logarithm at `x` along `e`; NaN where it is beyond the floats.

    By inverse scaling and squaring (A. Al-Mohy, N. Higham and S. Relton, 2013): that of each square root
    solves a triangular Sylvester equation, and that of ``r (1 + b r)^-1``, whose sum is the approximant, is
    ``(1 + b r)^-1 e (1 + b r)^-1``.
    """
    kind = complex128 if x.dtype.kind == "c" or e.dtype.kind == "c" else float64
    scales = _scales(xp, x)  # powers of two
    across = scales[:, None] / scales
    x, e = (xp.asarray(a / across, dtype=kind) for a in (x, e))
    t, q = xp.scipy_linalg.schur(x, check_finite=False)
    if t.dtype.kind != "c" and (xp.any(xp.diagonal(t, -1)) or xp.any(xp.diagonal(t) < 0)):
        t, turned = xp.scipy_linalg.schur(t, output="complex", check_finite=False)
        q = q @ turned
    if not xp.all(xp.diagonal(t)):
        return xp.full_like(e, math.nan)
    inverse = xp.matrix_transpose(xp.conj(q))
    along, one, count = inverse @ e @ q, xp.eye(len(x)), 0
    while not _near_one(xp, t):
        if count == ROOTS or not xp.all(xp.isfinite(t)):
            return xp.full_like(along, math.nan)
        t = _triangular_root(xp, t)
        along = _triangular_sylvester(xp, t, t, along)
        count += 1
    total = xp.zeros_like(along)
    nodes, weights = xp.special.roots_legendre(NODES)
    for node, weight in zip(nodes, weights, strict=True):
        factor = one + (node + 1) / 2 * (t - one)
        left = xp.solve_triangle(factor, along, upper=True, transposed=False, unit=False)
        right = xp.solve_triangle(factor, xp.matrix_transpose(left), upper=True, transposed=True, unit=False)
        total += weight / 2 * xp.matrix_transpose(right)
    return q @ (total * 2.0**count) @ inverse * across


def _scales(xp: Any, x: Any) -> Any:
    """Return how to scale a basis in which ``[[a, b], [0, a]]`` has a `b` as large as `a`; else ones."""
    n, h = len(x), len(x) // 2
    if n % 2 or xp.any(x[h:, :h]) or not xp.array_equal(x[:h, :h], x[h:, h:]):
        return xp.ones(n)
    inner = _scales(xp, x[:h, :h])
    beside = x[:h, h:]
    ratio = magnitude(xp, beside) / magnitude(xp, x[:h, :h]) if xp.any(beside) else 1.0
    return xp.concat([inner * ratio, inner])


def _triangular_root(xp: Any, t: Any) -> Any:
    """Return the square root of a triangle, half by half (E. Deadman, N. Higham and R. Ralha, 2013)."""
    if len(t) == 1:
        return xp.sqrt(t)
    k, out = len(t) // 2, xp.zeros_like(t)
    first = out[:k, :k] = _triangular_root(xp, t[:k, :k])
    second = out[k:, k:] = _triangular_root(xp, t[k:, k:])
    out[:k, k:] = _triangular_sylvester(xp, first, second, t[:k, k:])
    return out


def _near_one(xp: Any, t: Any) -> bool:
    """Whether a triangle is near the identity, by norms of powers of the difference (theorem 4.2 there).

    In a small one whose eigenvalues are much nearer, what stands beside the diagonal enters as a polynomial
    of a degree for which the rule is exact.
    """
    farthest = xp.amax(xp.abs(xp.diagonal(t) - 1))
    small = farthest <= CORE and len(t) <= NODES
    if small or not farthest <= RADIUS:
        return bool(small)
    power = difference = t - xp.eye(len(t))
    norms: list[float] = []
    for p in range(1, 7):
        norms.append(float(xp.linalg.norm(power, 1)) ** (1 / p))
        if (p == 1 and norms[0] <= RADIUS) or (p > 2 and max(norms[-2:]) <= RADIUS):
            return True
        power = power @ difference
    return False


def magnitude(xp: Any, x: Any) -> float:
    """Return a power of two of the size of the largest element; 1 where all are zero."""
    size = float(xp.amax(xp.abs(x)))
    return math.ldexp(1.0, math.frexp(size)[1] - 1) if size else 1.0
