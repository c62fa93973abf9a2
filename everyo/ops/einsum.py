"""Einstein summation, as a composition: diagonals and sums of single operands, then products of pairs."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, ShapeError, describe
from everyo.ops.creation import as_tensors
from everyo.ops.diagonals import diagonal
from everyo.ops.labelled import Contraction, contraction, permutation
from everyo.ops.shape import apart
from everyo.ops.signatures import explained

__all__ = ["einsum"]

Label = Any  # a letter, an integer (interleaved form), or (Ellipsis, axis from the right)
Labels = tuple[Any, ...]

_EXHAUSTIVE = 5  # up to so many operands every order of the products is tried


@explained
def einsum(*operands: Any, optimize: Any = None) -> Tensor:
    """Sum of products by Einstein's convention: axes are named, and names that the result lacks are summed.

    The gradient of each operand is again a sum of products: of the result's gradient with the other
    operands. Three and more operands are multiplied in pairs, in the cheapest order.

    Parameters
    ----------
    *operands : str, then tensors
        ``einsum("ij,jk->ik", x1, x2)``. A name repeated within an operand takes its diagonal; axes of
        size 1 broadcast; ``...`` stands for all other axes, which broadcast from the right. Without
        ``->`` the result has the axes of ``...``, then every name that appears once, sorted. Or
        interleaved, with integers as names: ``einsum(x1, [0, 1], x2, [1, 2], [0, 2])``.
    optimize : optional
        NumPy's, and without effect: the cheapest order is always looked for.

    Returns
    -------
    Tensor
        Axes in the order of the result's names; of the common dtype.

    Raises
    ------
    ShapeError
        If the subscripts cannot be read or do not fit the operands.
    DTypeError
        If there are no subscripts, or an operand is not numeric.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> print(eo.einsum("ii->", x), eo.einsum("ij,j->i", x, x[0]))
    5.0 [ 5. 11.]
    """
    if operands and isinstance(operands[0], str):
        subscripts: Any = operands[0]
        tensors = as_tensors(operands[1:], "einsum")
    else:
        tensors, subscripts = _interleaved(operands)
    try:
        plan = _plan(subscripts, tuple([tuple(x.shape) for x in tensors]))
    except _SubscriptError as error:
        shown = subscripts if isinstance(subscripts, str) else ", ".join(str(list(s)) for s in subscripts)
        raise ShapeError(
            str(error),
            operation="einsum",
            inputs=describe(*tensors),
            expected=error.expected,
            found=repr(shown) if isinstance(subscripts, str) else shown,
            remedy=error.remedy,
        ) from None
    return plan(tensors)


def _interleaved(operands: Sequence[Any]) -> tuple[list[Tensor], tuple[Labels, ...]]:
    """Return the tensors, and the lists of integers that follow them."""
    pairs = len(operands) // 2
    lists = (*operands[1 : 2 * pairs : 2], *operands[2 * pairs :])
    try:
        names = tuple(
            [tuple([k if k is Ellipsis else operator.index(k) for k in labels]) for labels in lists]
        )
    except TypeError:
        names = ()
    if not names:
        raise DTypeError(
            "there are no subscripts",
            operation="einsum",
            inputs=describe(*operands),
            expected="a string first, or a list of integers after each operand",
            found="neither",
            remedy='write for example eo.einsum("ij,jk->ik", x1, x2)',
        )
    return as_tensors(operands[0 : 2 * pairs : 2], "einsum"), names


class _Operand(NamedTuple):
    """What is done to an operand alone: broadcast axes dropped, diagonals taken, axes summed."""

    shape: tuple[int, ...] | None
    diagonals: tuple[tuple[int, int], ...]
    sums: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        if self.shape is not None:
            x = op.reshape(x, shape=self.shape)
        for axis1, axis2 in self.diagonals:
            x = diagonal(x, 0, axis1, axis2)
        if not self.sums:
            return x
        total = op.sum(x, axis=self.sums, keepdims=False)
        # NumPy's sum widens small integers, its einsum does not.
        return total if total.dtype == x.dtype else op.astype(total, dtype=x.dtype)


class _Plan(NamedTuple):
    """What `einsum` does for given subscripts and shapes; each product goes to the end of the list."""

    operands: tuple[_Operand, ...]
    products: tuple[tuple[int, int, Contraction], ...]
    axes: tuple[int, ...] | None

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        work = [prepare(x) for prepare, x in zip(self.operands, tensors, strict=True)]
        for i, j, product in self.products:
            x2 = work.pop(j)
            work.append(product(work.pop(i), x2))
        if self.axes is not None:
            return op.transpose(work[0], axes=self.axes)
        return apart(work[0]) if work[0] is tensors[0] else work[0]


class _SubscriptError(Exception):
    """Subscripts that cannot be read or do not fit; `einsum` adds the operands."""

    def __init__(self, message: str, expected: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.expected, self.remedy = expected, remedy


@functools.lru_cache(maxsize=1024)
def _plan(subscripts: str | tuple[Labels, ...], shapes: tuple[tuple[int, ...], ...]) -> _Plan:
    """Read the subscripts, check them against the shapes, and plan the operations."""
    if isinstance(subscripts, str):
        inputs, out = _read(subscripts)
    else:
        inputs, out = subscripts[: len(shapes)], None
        if len(subscripts) > len(shapes):
            out = subscripts[-1]
    if any(labels.count(Ellipsis) > 1 for labels in (*inputs, out or ())):
        raise _SubscriptError("... stands twice in one group", "at most one ... in each")
    if len(inputs) != len(shapes) or not shapes:
        raise _SubscriptError(
            f"{len(inputs)} operands are described and {len(shapes)} given",
            "one comma-separated group of names for each operand, and at least one operand",
        )
    ndims = enumerate(map(len, shapes))
    named = [_without_ellipsis(labels, ndim, i) for labels, (i, ndim) in zip(inputs, ndims, strict=True)]
    extent = max(sum(isinstance(label, tuple) for label in labels) for labels in named)
    out = _output(named, out, extent)
    sizes: dict[Label, int] = {}
    for labels, shape in zip(named, shapes):
        for label, n in zip(labels, shape):
            if sizes.setdefault(label, n) not in (n, 1) and n != 1:
                raise _SubscriptError(
                    f"the sizes of {_shown(label)} do not broadcast: {sizes[label]} and {n}",
                    "one size for each name, or 1",
                )
            sizes[label] = n if sizes[label] == 1 else sizes[label]
    terms = []
    for i, (labels, shape) in enumerate(zip(named, shapes)):
        for label in set(labels):
            if len({n for k, n in zip(labels, shape) if k == label}) > 1:
                raise _SubscriptError(
                    f"the axes of operand {i} that {_shown(label)} repeats have different sizes",
                    "axes of one size for a diagonal",
                )
        # An axis of size 1 that broadcasts has no label: it is dropped.
        terms.append(tuple(None if n == 1 != sizes[k] else k for k, n in zip(labels, shape)))
    return _schedule(terms, shapes, out, sizes)


def _read(subscripts: str) -> tuple[tuple[Labels, ...], Labels | None]:
    """Return the names of each operand and of the result, None if that is left to the convention."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    groups = []
    for group in (*left.split(","), right):
        labels = tuple(Ellipsis if c == "." else c for c in group.replace("...", "."))
        letters = [c for c in labels if c is not Ellipsis]
        dots = 3 * (len(labels) - len(letters))
        if group.count(".") != dots or not all(c.isascii() and c.isalpha() for c in letters):
            raise _SubscriptError(f"{group!r} cannot be read", "letters and ...")
        groups.append(labels)
    return tuple(groups[:-1]), groups[-1] if arrow else None


def _without_ellipsis(labels: Labels, ndim: int, i: int) -> Labels:
    """Return one label for each axis; those of an ellipsis are numbered from the right."""
    named = len(labels) - (Ellipsis in labels)
    if named > ndim or (named < ndim and Ellipsis not in labels):
        raise _SubscriptError(
            f"operand {i} has {ndim} axes and {named} names",
            "a name for each axis, or ... for the others",
        )
    if Ellipsis not in labels:
        return labels
    at = labels.index(Ellipsis)
    return (*labels[:at], *((Ellipsis, k) for k in reversed(range(ndim - named))), *labels[at + 1 :])


def _output(named: Sequence[Labels], out: Labels | None, extent: int) -> Labels:
    """Return the labels of the result, `extent` of which an ellipsis stands for."""
    spread = tuple((Ellipsis, k) for k in reversed(range(extent)))
    everything = [label for labels in named for label in labels]
    if out is None:
        once = [k for k in everything if not isinstance(k, tuple) and everything.count(k) == 1]
        return spread + tuple(sorted(once))
    if spread and Ellipsis not in out:
        raise _SubscriptError(
            "the result has no place for the axes of ...",
            "... in the result too",
            "write ... after ->, and sum those axes afterwards if they are not wanted",
        )
    at = out.index(Ellipsis) if Ellipsis in out else len(out)
    names = (*out[:at], *out[at + 1 :])
    for label in names:
        if label not in everything or names.count(label) > 1:
            fault = "twice" if label in everything else "which no operand has"
            raise _SubscriptError(
                f"the result names {_shown(label)} {fault}",
                "each name of the result once, and in some operand",
            )
    return (*out[:at], *spread, *out[at + 1 :])


def _shown(label: Label) -> str:
    return "the axes of ..." if isinstance(label, tuple) else repr(label)


def _order(
    terms: tuple[frozenset[Label], ...], out: frozenset[Label], sizes: dict[Label, int]
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return the number of multiplications and the pairs to multiply; a product goes to the list's end.

    For more than `_EXHAUSTIVE` operands the cheapest pair is taken at each step.
    """
    if len(terms) < 2:
        return 0, ()
    options = []
    for j in range(1, len(terms)):
        for i in range(j):
            rest = terms[:i] + terms[i + 1 : j] + terms[j + 1 :]
            involved = terms[i] | terms[j]
            kept = involved & out.union(*rest)
            cost, size = (math.prod(sizes[label] for label in labels) for labels in (involved, kept))
            options.append((cost, size, (i, j), (*rest, kept)))
    if len(terms) > _EXHAUSTIVE:
        options = [min(options, key=lambda option: option[:2])]
    plans = []
    for cost, size, pair, remaining in options:
        more, pairs = _order(remaining, out, sizes)
        plans.append((cost + more, size, (pair, *pairs)))
    cost, _, pairs = min(plans)
    return cost, pairs


def _schedule(
    terms: Sequence[Labels], shapes: Sequence[tuple[int, ...]], out: Labels, sizes: dict[Label, int]
) -> _Plan:
    """Plan the operations for operands with these labels, None for axes that are dropped."""
    operands, work = [], []
    for i, (labels, shape) in enumerate(zip(terms, shapes, strict=True)):
        elsewhere = {label for k, other in enumerate(terms) if k != i for label in other}.union(out)
        operand, rest = _preparation(labels, shape, elsewhere)
        operands.append(operand)
        work.append(rest)
    products = []
    for i, j in _order(tuple(map(frozenset, work)), frozenset(out), sizes)[1]:
        labels2, labels1 = work.pop(j), work.pop(i)
        shape1, shape2 = (tuple([sizes[label] for label in labels]) for labels in (labels1, labels2))
        product, made = contraction(labels1, shape1, labels2, shape2, frozenset(out).union(*work))
        products.append((i, j, product))
        work.append(made)
    return _Plan(tuple(operands), tuple(products), permutation(work[0], out))


def _preparation(labels: Labels, shape: tuple[int, ...], keep: set[Label]) -> tuple[_Operand, Labels]:
    """Return what is done to one operand, and the labels that are left."""
    left = [k for k in labels if k is not None]
    kept_shape = tuple(n for n, k in zip(shape, labels, strict=True) if k is not None)
    diagonals = []
    for label in [k for i, k in enumerate(left) if k in left[:i]]:
        i = left.index(label)
        j = left.index(label, i + 1)
        diagonals.append((i, j))
        left = [*left[:i], *left[i + 1 : j], *left[j + 1 :], label]
    sums = tuple(i for i, k in enumerate(left) if k not in keep)
    operand = _Operand(None if None not in labels else kept_shape, tuple(diagonals), sums)
    return operand, tuple(k for k in left if k in keep)
