"""What the files of this package share: checks, errors, transposes, diagonals, and the samples' matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from everyo.core.batching import trailing
from everyo.core.dtypes import float16, float64
from everyo.core.modes import current_mode
from everyo.core.registry import op
from everyo.core.samples import Values, sample
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, LinAlgError, ShapeError, UnsupportedOperationError, describe
from everyo.ops.creation import as_tensor
from everyo.ops.families import linear
from everyo.ops.reductions import conjugate, inexact

matrixwise = trailing(2)


def not_half(x: Tensor, operation: str) -> Tensor:
    """Return `x`; DTypeError if it is of float16, in which nothing is solved or decomposed, as in NumPy."""
    if x.dtype == float16:
        raise DTypeError(
            "half precision is too little to solve or decompose",
            operation=operation,
            inputs=describe(x),
            expected="float32, float64 or a complex dtype",
            found="float16",
            remedy="convert it, and the result back if need be: x.astype(eo.float32)",
        )
    return x


def right_hand_side(x: Any, operation: str) -> Tensor:
    """Return what a system is solved for as a tensor of floats; DTypeError if these are of float16."""
    return not_half(inexact(x), operation)


def matrices(x: Any, operation: str, half: bool = False) -> Tensor:
    """Return `x` as a tensor of floats; ShapeError unless its last two axes are those of matrices.

    DTypeError if they are of float16, unless `half` says that this is computed.
    """
    x = inexact(as_tensor(x))
    if len(x.shape) < 2:
        raise ShapeError(
            "there is no matrix",
            operation=operation,
            inputs=describe(x),
            expected="at least two axes",
            found=f"shape {tuple(x.shape)}",
            remedy="add axes with reshape or expand_dims",
        )
    return x if half else not_half(x, operation)


def square(x: Any, operation: str, half: bool = False) -> Tensor:
    """Return `x` as `matrices` does; ShapeError unless they are square."""
    x = matrices(x, operation, half)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            "the matrices are not square",
            operation=operation,
            inputs=describe(x),
            expected="the last two axes of one size",
            found=f"{x.shape[-2]} and {x.shape[-1]}",
            remedy="use pinv or lstsq for matrices that are not square",
        )
    return x


def float_of(dtype: Any) -> Any:
    """Return the dtype that NumPy's linear algebra computes in: float64 for integers."""
    return dtype if dtype.kind in "fc" else float64


def real_of(dtype: Any) -> Any:
    """Return the dtype of the parts of a complex dtype; float64 for integers."""
    return float_of(dtype).type(0).real.dtype


def joined(*dtypes: Any) -> Any:
    """Return the float dtype that dtypes promote to."""
    first, *others = (float_of(d).type(0) for d in dtypes)
    for other in others:
        first = first + other
    return first.dtype


def alike(*values: Tensor) -> list[Tensor]:
    """Return tensors all in the dtype that they promote to."""
    dtype = joined(*(x.dtype for x in values))
    return [x if x.dtype == dtype else op.astype(x, dtype=dtype) for x in values]


def broadcast(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that two shapes broadcast to."""
    rank = max(len(first), len(second))
    rows = [(1,) * (rank - len(s)) + tuple(s) for s in (first, second)]
    return tuple(b if a == 1 else a for a, b in zip(*rows, strict=True))


def same_layout(examples: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Return shape and dtype of a result that is like the first operand."""
    return [(tuple(examples[0].shape), float_of(examples[0].dtype))]


def has_scipy(xp: Any) -> bool:
    """Whether SciPy's linear algebra is installed."""
    try:
        return bool(xp.scipy_linalg.get_lapack_funcs)
    except UnsupportedOperationError:
        return False


def tracked(x: Tensor) -> bool:
    """Whether a derivative with respect to `x`, or to what it was computed from, may be asked for."""
    return bool(x.level) or (x.grad_node is not None and current_mode().grad)


def inexact_array(xp: Any, x: Any) -> Any:
    """Return an array of floats."""
    return xp.asarray(x, dtype=float_of(x.dtype))


def on_finite(xp: Any, function: Callable[..., Any], x: Any, *others: Any) -> Any:
    """Return ``function(x, *others)`` of batches of matrices; NaN for those that are not finite."""
    arrays = [inexact_array(xp, a) for a in (x, *others)]
    finite = True
    for a in arrays:
        finite = finite & xp.all(xp.isfinite(a), axis=(-2, -1), keepdims=True)
    if xp.all(finite):
        return function(*arrays)
    out = function(*(xp.where(finite, a, xp.eye(a.shape[-1], dtype=a.dtype)) for a in arrays))
    return xp.where(finite, out, xp.full_like(out, math.nan))


def adjoint(x: Any) -> Any:
    """Return the conjugate transposes of matrices."""
    return op.matrix_transpose(conjugate(x))


def hermitian(x: Any) -> Any:
    """Return the Hermitian parts of matrices."""
    return (x + adjoint(x)) * 0.5


def column(v: Any) -> Any:
    """Return ``v[..., :, None]``."""
    return op.reshape(v, shape=(*v.shape, 1))


def row(v: Any) -> Any:
    """Return ``v[..., None, :]``."""
    return op.reshape(v, shape=(*v.shape[:-1], 1, v.shape[-1]))


def summed(x: Any, axis: int = -1) -> Any:
    """Return the sum along one axis, counted from the end."""
    return op.sum(x, axis=(len(x.shape) + axis,), keepdims=False)


def above(u: Any, v: Any) -> Any:
    """Return the rows of `u` above those of `v`."""
    return op.concat(u, v, axis=len(u.shape) - 2)


def of_kind(x: Any, dtype: Any) -> Any:
    """Return `x` without its imaginary part where `dtype` is real."""
    return op.real(x) if x.dtype.kind == "c" and dtype.kind != "c" else x


@linear(
    lambda g: op.diagonal(g),
    samples=lambda: [sample((3,)), sample((2, 2)), sample((0,))],
    batch=trailing(1),
)
def _diagonal_matrix(xp: Any, x: Any) -> Any:
    """Return the matrices with these diagonals and zeros elsewhere."""
    n = x.shape[-1]
    out = xp.zeros((*x.shape, n), x.dtype)
    out[..., xp.arange(n), xp.arange(n)] = x
    return out


# ---- errors


def entries(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the index of each matrix in an array of this shape."""
    return product(*map(range, shape[:-2]))


def named(index: tuple[int, ...]) -> str:
    """Return how an error names a matrix of a batch."""
    return f"matrix [{', '.join(map(str, index))}] of the batch" if index else "the matrix"


def first_failing(x: Any, failing: Callable[[Any], bool]) -> str:
    """Return the name of the first matrix for which `failing` holds."""
    index = next((i for i in entries(x.shape) if failing(x[i])), ())
    return named(index)


def fails(function: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Return whether a function of one matrix raises an error of linear algebra."""

    def failing(matrix: Any) -> bool:
        try:
            function(matrix)
        except ValueError:  # NumPy's LinAlgError is one
            return True
        return False

    return failing


def singular(operation: str, x: Any, which: str) -> LinAlgError:
    """Return the error for a matrix without an inverse."""
    return LinAlgError(
        f"{which} is singular",
        operation=operation,
        inputs=describe(x),
        expected="matrices with an inverse",
        found="a pivot that is exactly zero",
        remedy="use eo.linalg.pinv or eo.linalg.lstsq, or add a multiple of the identity",
    )


def no_convergence(operation: str, x: Any, which: str, finite: bool) -> LinAlgError:
    """Return the error for a decomposition that was not found."""
    return LinAlgError(
        f"{which} could not be decomposed",
        operation=operation,
        inputs=describe(x),
        expected="finite elements",
        found="an iteration that did not converge" if finite else "a NaN or an infinity",
        remedy="look at the elements with eo.isfinite, or scale the matrix",
    )


def decomposed(operation: str, xp: Any, x: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``function(x)``; an error of NumPy's becomes one that says which matrix it was."""
    try:
        return function(x)
    except xp.linalg.LinAlgError:
        which = first_failing(x, fails(function))
        raise no_convergence(operation, x, which, bool(xp.all(xp.isfinite(x)))) from None


# ---- samples


def made(*shape: int, diagonal: float = 0.0, phase: float = 0.0) -> Values:
    """Return explicit elements between -1 and 1, with `diagonal` added to the main diagonals."""

    def fill(sizes: tuple[int, ...], start: int, last: tuple[int, ...]) -> Any:
        if not sizes:
            k = start
            bonus = diagonal if len(last) > 1 and last[-1] == last[-2] else 0.0
            return math.cos(1.3 * k * k + 0.7 * k + phase) + bonus
        step = math.prod(sizes[1:])
        return [fill(sizes[1:], start + i * step, (*last, i)) for i in range(sizes[0])]

    return Values(fill(shape, 0, ()))
