"""The Cholesky factor and the solution of a triangular system, blocked, in array code.

EveryO has no linear algebra of its own yet; this is what its user writes meanwhile.
"""

from __future__ import annotations

import everyo as eo

BLOCK = 50


def _factor_and_inverse(a: eo.Tensor) -> tuple[eo.Tensor, eo.Tensor]:
    """Return the lower Cholesky factor of a small matrix (n, n), and the factor's inverse."""
    n = a.shape[0]
    rows = eo.arange(n)
    identity = eo.eye(n, dtype=a.dtype)

    def eliminate(state, j):
        rest, inverse = state
        unit = identity[j]
        column = eo.where(rows >= j, rest @ unit, 0.0)
        pivot = eo.sqrt(column @ unit)
        column = column / pivot
        row = (unit @ inverse) / pivot  # row j of the inverse, which is final now
        below = eo.where(rows > j, column, 0.0)
        inverse = eo.where((rows == j)[:, None], row, inverse - eo.outer(below, row))
        return (rest - eo.outer(column, column), inverse), column

    (_, inverse), columns = eo.scan(eliminate, (a, identity), rows)
    return columns.T, inverse


def cholesky(a: eo.Tensor) -> eo.Tensor:
    """Return the lower Cholesky factor of a positive definite matrix (n, n)."""
    n = a.shape[0]
    rest, columns = a, []
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        diagonal, inverse = _factor_and_inverse(rest[:size, :size])
        panel = rest[size:, :size] @ inverse.T
        rest = rest[size:, size:] - panel @ panel.T
        above = eo.zeros((start, size), dtype=a.dtype)
        columns.append(eo.concat([above, diagonal, panel], axis=0))
    return eo.concat(columns, axis=1)


def solve_lower(l: eo.Tensor, b: eo.Tensor) -> eo.Tensor:
    """Return x with ``l @ x = b`` for a lower triangular l (n, n) and b (n, 1), row by row."""
    n = l.shape[0]
    rows = eo.arange(n)

    def substitute(x, given):
        index, row, value = given
        found = (value - row @ x) / eo.sum(eo.where(rows == index, row, 0.0))
        return eo.where(rows == index, found, x), None

    start = eo.zeros(n, dtype=l.dtype)
    return eo.scan(substitute, start, (rows, l, b[:, 0]))[0][:, None]
