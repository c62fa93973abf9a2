"""Colouring: columns (or rows, or both at once) that one direction can serve get one colour."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from everyo.errors import ArgumentError

Lists = list[list[int]]
ORDERS = ("natural", "largest_first", "smallest_last")


def adjacency(pattern: Any) -> Lists:
    """Return the column indices of each row of a CSR matrix."""
    indices, bounds = pattern.indices.tolist(), pattern.indptr.tolist()
    return [indices[start:stop] for start, stop in itertools.pairwise(bounds)]


def color_columns(pattern: Any, order: str = "natural") -> Any:
    """Colour the columns so that no row has two nonzeros of one colour.

    Greedy: every column in turn takes the first colour that none of its rows has yet. Each row keeps the
    colours it has as the bits of one integer, so that the cost is linear in the nonzeros.

    Parameters
    ----------
    pattern : scipy.sparse array
        Its nonzeros count, not their values.
    order : {"natural", "largest_first", "smallest_last"}
        In which order columns choose; see `ordering`.

    Returns
    -------
    numpy.ndarray of int
        The colour of each column, from 0.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> print(color_columns(sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(7, 7))))
    [0 1 2 0 1 2 0]
    """
    rows_of = adjacency(pattern.T.tocsr())
    taken = [0] * pattern.shape[0]
    colors = np.zeros(pattern.shape[1], int)
    for column in ordering(rows_of, lambda: adjacency(pattern.tocsr()), order):
        forbidden = 0
        for row in rows_of[column]:
            forbidden |= taken[row]
        bit = ~forbidden & (forbidden + 1)  # the lowest bit that is 0
        for row in rows_of[column]:
            taken[row] |= bit
        colors[column] = bit.bit_length() - 1
    return colors


def ordering(rows_of: Lists, columns_of: Callable[[], Lists], order: str) -> Any:
    """Return the columns in the order in which they choose their colours.

    ``"natural"`` is that of the matrix. ``"largest_first"`` begins with the columns that meet most others,
    counted once for each row they meet in. ``"smallest_last"`` puts the column that meets fewest last,
    removes it, and so on: often the fewest colours, at a higher cost.
    """
    if order not in ORDERS:
        raise ArgumentError(
            "unknown order of colouring",
            operation="coloring",
            expected=" or ".join(ORDERS),
            found=repr(order),
        )
    if order == "natural":
        return range(len(rows_of))
    columns = columns_of()
    degrees = [sum(len(columns[row]) - 1 for row in rows) for rows in rows_of]
    if order == "largest_first":
        return np.argsort(-np.array(degrees, int), kind="stable").tolist()
    heap = [(degree, column) for column, degree in enumerate(degrees)]
    heapq.heapify(heap)
    removed = []
    while heap:
        degree, column = heapq.heappop(heap)
        if degree != degrees[column]:
            continue  # an entry from before its degree fell, or of a column that is gone
        degrees[column] = -1
        removed.append(column)
        for row in rows_of[column]:
            for other in columns[row]:
                if degrees[other] > 0:
                    degrees[other] -= 1
                    heapq.heappush(heap, (degrees[other], other))
    return removed[::-1]


def color_symmetric(pattern: Any, order: str = "natural") -> Any:
    """Colour the rows and columns of a symmetric matrix so that each entry can be read off directly.

    A star colouring: neighbours differ in colour, and every path of four vertices has three colours. Then
    of two entries ``(i, j)`` and ``(j, i)`` one is alone of its colour in its row. It needs fewer colours
    than `color_columns`, which does not know that the two are equal.

    Parameters
    ----------
    pattern : scipy.sparse array
        Square, with a symmetric pattern; the diagonal does not matter.
    order : {"natural", "largest_first", "smallest_last"}
        In which order vertices choose.

    Returns
    -------
    numpy.ndarray of int
        The colour of each row and column, from 0.

    Examples
    --------
    An arrow: two colours instead of one for each column.

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> arrow = np.eye(5)
    >>> arrow[0] = arrow[:, 0] = 1
    >>> print(color_symmetric(sp.csr_array(arrow)))
    [0 1 1 1 1]
    """
    neighbours = [[w for w in row if w != v] for v, row in enumerate(adjacency(pattern.tocsr()))]
    colors = [-1] * len(neighbours)
    hub: list[int] = []  # of each star: the vertex that all its edges share, -1 as long as it has one edge
    star: dict[tuple[int, int], int] = {}  # the star that each coloured edge belongs to

    def edge(v: int, w: int) -> tuple[int, int]:
        return (v, w) if v < w else (w, v)

    for v in ordering(neighbours, lambda: neighbours, order):
        colored = [w for w in neighbours[v] if colors[w] >= 0]
        forbidden = {colors[w] for w in colored}
        alike: dict[int, list[int]] = {}
        for w in colored:
            alike.setdefault(colors[w], []).append(w)
        for group in alike.values():
            for w in group:
                # Two neighbours of one colour make v a hub: it must differ from all that they touch.
                # Otherwise it must differ from those hubs alone that have w as a ray.
                for x in neighbours[w]:
                    if colors[x] >= 0 and (len(group) > 1 or hub[star[edge(w, x)]] == x):
                        forbidden.add(colors[x])
        color = 0
        while color in forbidden:
            color += 1
        colors[v] = color
        for group in alike.values():
            joined = None
            for w in group:
                twin = next((x for x in neighbours[w] if x != v and colors[x] == color), None)
                if twin is not None:  # v and its twin are rays of a star around w
                    number = star[edge(w, twin)]
                    hub[number] = w
                elif joined is None:
                    number = joined = len(hub)
                    hub.append(v if len(group) > 1 else -1)
                else:
                    number = joined
                star[edge(v, w)] = number
    return np.array(colors, int)
