"""Evaluation in few directions: one for each colour, from which every entry is read off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from everyo.core.modes import is_grad_enabled
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import depth
from everyo.errors import (
    ArgumentError,
    DTypeError,
    GraphStateError,
    ShapeError,
    UnsupportedOperationError,
    describe,
)
from everyo.ops.creation import from_numpy
from everyo.ops.data_types import result_type
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_function
from everyo.transforms.derivatives import gradient_of, vjp
from everyo.transforms.forward import jvp
from everyo.transforms.passes import at_once
from everyo.transforms.raveling import Layout, ravel
from everyo.transforms.sparse.coloring import ORDERS, color_columns, color_symmetric
from everyo.transforms.sparse.detection import detect
from everyo.transforms.trees import differentiable, flatten, require_some, returned
from everyo.transforms.vectorize import vmap

Function = Callable[..., Any]
MODES = ("auto", "forward", "reverse", "hessian")
FORMATS = {"csr": sp.csr_array, "coo": sp.coo_array}


class Plan:
    """A pattern with its colours, and where each of its entries stands in the compressed matrix.

    Attributes
    ----------
    pattern : scipy.sparse.csr_array of bool
    colors : numpy.ndarray of int
        For each column in forward mode, row in reverse mode, or both for a Hessian.
    count : int
        The number of colours: of directions to push.
    direction : {"forward", "reverse", "hessian"}
    group, place : numpy.ndarray of int
        Entry k of the pattern is element ``place[k]`` of what the directions of colour ``group[k]`` give.
    """

    def __init__(self, pattern: Any, direction: str, order: str) -> None:
        self.pattern = pattern
        rows, columns = pattern.nonzero()
        if direction == "hessian":
            self.colors = color_symmetric(pattern, order)
            self.group, self.place = _readable(rows, columns, self.colors)
        else:
            found = {}
            if direction != "reverse":
                found["forward"] = color_columns(pattern, order)
            if direction != "forward":
                found["reverse"] = color_columns(pattern.T.tocsr(), order)
            direction = min(found, key=lambda name: _count(found[name]))
            self.colors = colors = found[direction]
            forward = direction == "forward"
            self.group, self.place = (colors[columns], rows) if forward else (colors[rows], columns)
        self.direction, self.count = direction, _count(self.colors)
        self.by_color = np.argsort(self.group, kind="stable")
        self.bounds = np.searchsorted(self.group[self.by_color], np.arange(self.count + 1))

    def seeds(self, start: int, stop: int, dtype: Any) -> Any:
        """Return the directions of these colours: each adds up what has its colour."""
        rows = np.zeros((stop - start, len(self.colors)), dtype)
        members = np.flatnonzero((self.colors >= start) & (self.colors < stop))
        rows[self.colors[members] - start, members] = 1
        return rows

    def read(self, data: Any, images: Any, start: int, stop: int) -> None:
        """Enter what the directions of these colours gave."""
        entries = self.by_color[self.bounds[start] : self.bounds[stop]]
        data[entries] = images[self.group[entries] - start, self.place[entries]]

    def matrix(self, data: Any) -> Any:
        """Return the CSR matrix with these values as its entries."""
        return sp.csr_array((data, self.pattern.indices, self.pattern.indptr), shape=self.pattern.shape)


def _count(colors: Any) -> int:
    return int(colors.max(initial=-1)) + 1


def _readable(rows: Any, columns: Any, colors: Any) -> tuple[Any, Any]:
    """Return colour and place at which each entry of a symmetric matrix is alone."""
    key = rows * (_count(colors) + 1) + colors[columns]
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    alone = counts[inverse] == 1
    return np.where(alone, colors[columns], colors[rows]), np.where(alone, rows, columns)


class SparseDerivative:
    """A function that returns a sparse Jacobian or Hessian; made by `sparse_jacobian`, `sparse_hessian`.

    The first call detects the sparsity and colours it; later ones reuse both.

    Attributes
    ----------
    pattern : scipy.sparse.csr_array of bool or None
        Where the derivative may be nonzero, as last detected or given.
    colors : numpy.ndarray of int or None
        The colour of each column (forward mode), row (reverse mode) or both (Hessian).
    count : int
        The number of colours, which is the number of directions that a call pushes.
    mode : str or None
        The direction taken: "forward", "reverse" or "hessian".
    """

    def __init__(
        self,
        function: Function,
        name: str,
        mode: str,
        *,
        sparsity: Any,
        order: str,
        format: str,
        chunk_size: int | None,
        check: bool,
    ) -> None:
        require_function(name, function)
        for value, known in ((mode, MODES), (format, FORMATS), (order, ORDERS)):
            if value not in known:
                raise ArgumentError(
                    "unknown option",
                    operation=name,
                    expected=" or ".join(map(repr, known)),
                    found=repr(value),
                )
        self.function, self.name, self.requested, self.order = function, name, mode, order
        self.format, self.chunk_size, self.check = format, chunk_size, check
        self.plan: Plan | None = None
        self._layout: Layout | None = None
        self._local = False
        self._output: Any = None  # the dtype that the function computes in
        self._given = sparsity is not None
        if self._given:
            given = sp.csr_array(sparsity if sp.issparse(sparsity) else np.asarray(sparsity)) != 0
            given.sum_duplicates()
            self.plan = Plan(self._symmetric(given), mode, order)

    pattern = property(lambda self: self.plan and self.plan.pattern)
    colors = property(lambda self: self.plan and self.plan.colors)
    count = property(lambda self: self.plan.count if self.plan else 0)
    mode = property(lambda self: self.plan and self.plan.direction)

    def sparsity(self, x: Any) -> Any:
        """Return the pattern at a point as a boolean CSR matrix, detected if it is not known yet."""
        self._prepare(*self._point(x))
        return self.pattern

    def __call__(self, x: Any, *others: Any) -> Any:
        """Return the derivative at a point, a tensor or a pytree of them, as a SciPy sparse array."""
        if others:
            raise ArgumentError(
                "the function is one of one argument",
                operation=self.name,
                expected="the point, a tensor or a tree of them",
                found=f"{1 + len(others)} arguments",
                remedy=f"bind the others: eo.{self.name}(lambda x: f(x, k))(x)",
            )
        point, flat, layout = self._point(x)
        fresh = self._prepare(point, flat, layout)
        assert self.plan is not None
        plan = self.plan
        push = self._directions(plan, point, flat)
        data = np.zeros(plan.pattern.nnz, point.dtype)
        step = self.chunk_size or at_once(max(plan.pattern.shape))
        for start in range(0, plan.count, step):
            stop = min(start + step, plan.count)
            found = push(plan.seeds(start, stop, point.dtype))
            if found.dtype != data.dtype:
                data = data.astype(found.dtype)
            plan.read(data, found, start, stop)
        result = plan.matrix(data)
        if self.check and not fresh:
            self._verify(plan, result, push, point.dtype)
        return FORMATS[self.format](result)

    def _point(self, x: Any) -> tuple[Tensor, Function, Layout]:
        """Return the point as a vector, and what is differentiated as a function of one."""
        if depth():
            raise UnsupportedOperationError(
                "the result is a SciPy matrix, through which no other transformation can see",
                operation=self.name,
                expected="a call outside of grad, jvp and vmap",
                found="a call inside one",
                remedy="use eo.jacobian or eo.hessian there",
            )
        tensors = differentiable(flatten(x)[0], self.name)
        require_some(tensors, self.name)
        layout = Layout(x)
        if any(t.dtype.kind == "c" for t in tensors):
            raise DTypeError(
                "sparse derivatives are for real inputs",
                operation=self.name,
                inputs=describe(*tensors),
                expected="float tensors",
                found="complex ones",
                remedy="make real and imaginary part inputs of their own",
            )
        if is_grad_enabled() and any(t.requires_grad for t in tensors):
            raise self._untracked(describe(*tensors))
        function, name = self.function, self.name

        def flat(vector: Tensor) -> Tensor:
            leaves = [returned(leaf, name) for leaf in flatten(function(layout.unravel(vector)))[0]]
            return ravel(leaves) if leaves else vector[:0]

        derived = gradient_of(flat, 0, None, False, name) if self.requested == "hessian" else flat
        return ravel(tensors).detach(), derived, layout

    def _prepare(self, point: Tensor, flat: Function, layout: Layout) -> bool:
        """Have a plan for this point; return whether the pattern was detected just there."""
        if self._given or (self.plan is not None and not self._local and layout == self._layout):
            return False
        pattern, self._local = detect(flat, point)
        pattern = self._symmetric(pattern)
        if self.plan is None or not _equal(pattern, self.plan.pattern):
            self.plan = Plan(pattern, self.requested, self.order)
        self._layout = layout
        return True

    def _symmetric(self, pattern: Any) -> Any:
        if self.requested != "hessian":
            return pattern
        if pattern.shape[0] != pattern.shape[1]:
            raise ShapeError(
                "a Hessian's pattern is square",
                operation=self.name,
                expected="(n, n)",
                found=str(pattern.shape),
                remedy="give the pattern of the Hessian, not that of the gradient of several outputs",
            )
        return (pattern + pattern.T).tocsr()

    def _directions(self, plan: Plan, point: Tensor, flat: Function) -> Callable[[Any], Any]:
        """Return the function that pushes directions, the rows of an array, and returns the images."""
        if plan.pattern.shape[1] != point.size:
            raise self._misfit(plan, f"(..., {point.size})")
        if plan.direction == "reverse":
            value, pullback = vjp(flat, point)
            if value.size != plan.pattern.shape[0]:
                raise self._misfit(plan, f"({value.size}, {point.size})")
            if value.dtype.kind == "c":
                raise DTypeError(
                    "reverse mode needs a real result", operation=self.name, inputs=describe(value),
                    expected="a float result", found=str(value.dtype), remedy='pass mode="forward"',
                )  # fmt: skip

            self._output = value.dtype

            def one(direction: Tensor) -> Tensor:
                return pullback(direction.astype(value.dtype))[0].astype(result_type(value, point))
        else:

            def one(direction: Tensor) -> Tensor:
                value, image = jvp(flat, (point,), (direction,))
                self._output = value.dtype
                return image.astype(result_type(value, point))

        def push(rows: Any) -> Any:
            seeds = from_numpy(rows)
            try:
                images = vmap(one)(seeds)
            except UnsupportedOperationError:  # something in it cannot be batched
                images = op.stack(*(one(seed) for seed in seeds), axis=0)
            if images.shape[1] != plan.pattern.shape[plan.direction == "reverse"]:
                raise self._misfit(plan, f"({images.shape[1]}, {point.size})")
            if images.requires_grad:
                raise self._untracked("tensors that the function captured")
            return images.numpy()

        return push

    def _untracked(self, inputs: str) -> GraphStateError:
        return GraphStateError(
            "the result is a SciPy matrix, which has no graph",
            operation=self.name,
            inputs=inputs,
            expected="tensors that do not require grad",
            found="requires_grad=True",
            remedy="call it under eo.no_grad(), or use eo.jacobian or eo.hessian, which keep a graph",
        )

    def _misfit(self, plan: Plan, shape: str) -> ShapeError:
        return ShapeError(
            "the sparsity pattern does not fit the function",
            operation=self.name,
            expected=f"a pattern of shape {shape}",
            found=f"shape {plan.pattern.shape}",
            remedy="one row for each output element, one column for each input element, in C order",
        )

    def _verify(self, plan: Plan, result: Any, push: Callable[[Any], Any], dtype: Any) -> None:
        """Compare the product with a random vector to the derivative in that direction."""
        matrix = result.T if plan.direction == "reverse" else result
        rng = np.random.default_rng(matrix.nnz)
        vector = (rng.uniform(0.5, 1.5, matrix.shape[1]) * rng.choice((-1, 1), matrix.shape[1])).astype(dtype)
        (direct,) = push(vector[None])
        with np.errstate(all="ignore"):  # a NaN in both says nothing about the pattern
            error = np.abs(matrix @ vector - direct)
            coarsest = max(np.finfo(t).eps for t in (error.dtype, self._output) if t.kind in "fc")
            bound = np.sqrt(coarsest) * (abs(matrix) @ np.abs(vector) + np.abs(direct))
            wrong = np.flatnonzero(error > bound)
        if wrong.size:
            line = "column" if plan.direction == "reverse" else "row"
            raise ArgumentError(
                f"the derivative has nonzeros that its sparsity pattern lacks, as in {line} {wrong[0]}",
                operation=self.name,
                expected="a pattern that covers every nonzero at every point",
                found=f"{wrong.size} {line}s that the derivative in a random direction contradicts",
                remedy="add the entries to sparsity=..."
                if self._given
                else "make a new sparse derivative whenever constants inside the function change",
            )


def _equal(left: Any, right: Any) -> bool:
    return left.shape == right.shape and left.nnz == right.nnz and (left != right).nnz == 0


@explained
def sparse_jacobian(
    function: Function,
    x: Any = None,
    *,
    sparsity: Any = None,
    mode: str = "auto",
    order: str = "natural",
    format: str = "csr",
    chunk_size: int | None = None,
    check: bool = True,
) -> Any:
    """Return the Jacobian of a function as a sparse matrix, at the cost of a few directions.

    Columns without a common row are computed together: with ``S`` of shape (n, colours) that adds them up,
    ``J @ S`` holds every entry of J on its own (in reverse mode rows, and ``S.T @ J``). The pattern is
    detected by sending index sets through the operations, or given. Source: Curtis, Powell and
    Reid (1974), On the estimation of sparse Jacobian matrices.

    Parameters
    ----------
    function : callable
        Takes a float tensor or a pytree of them, returns one, of any shapes. Rows and columns of the matrix
        count the elements in C order, leaf after leaf.
    x : tensor or pytree of tensors, optional
        The point. Without it a reusable function of the point is returned.
    sparsity : sparse matrix or array, optional
        The pattern, shape (outputs, inputs): nonzero wherever the derivative may be. Detected by default.
    mode : {"auto", "forward", "reverse"}
        Colour columns and push tangents, or rows and pull cotangents; "auto" takes the fewer colours.
    order : {"natural", "largest_first", "smallest_last"}
        In which order columns (rows) choose colours.
    format : {"csr", "coo"}
        The format of the result.
    chunk_size : int, optional
        How many directions are pushed at once; by default as many as keep memory bounded.
    check : bool, default True
        Where the pattern was not detected at this very point, compare with the derivative in one random
        direction, so that an entry missing from it does not go unnoticed.

    Returns
    -------
    scipy.sparse.csr_array or coo_array, or SparseDerivative
        Of shape (outputs, inputs) and the dtype that input and output promote to. The pattern
        holds for all points; where it depends on values (an ``if``, a computed index) it is detected anew at
        each.

    Raises
    ------
    ArgumentError
        If a nonzero lies outside the given pattern, or there is no such mode, order or format.
    ShapeError, DTypeError
        If the pattern does not fit the function, or an input is not of a float dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> second_difference = lambda x: x[2:] - 2 * x[1:-1] + x[:-2]
    >>> print(eo.sparse_jacobian(second_difference, eo.zeros(5)).toarray())
    [[ 1. -2.  1.  0.  0.]
     [ 0.  1. -2.  1.  0.]
     [ 0.  0.  1. -2.  1.]]

    Made once, used at many points:

    >>> jacobian = eo.sparse_jacobian(lambda x: x[1:] * x[:-1])
    >>> jacobian(eo.ones(1000)).nnz, jacobian.count
    (1998, 2)
    """
    if mode == "hessian":
        raise ArgumentError(
            "this is the Jacobian",
            operation="sparse_jacobian",
            expected=" or ".join(repr(m) for m in MODES if m != "hessian"),
            found=repr(mode),
            remedy="use eo.sparse_hessian",
        )
    made = SparseDerivative(
        function, "sparse_jacobian", mode,
        sparsity=sparsity, order=order, format=format, chunk_size=chunk_size, check=check,
    )  # fmt: skip
    return made if x is None else made(x)


@explained
def sparse_hessian(
    function: Function,
    x: Any = None,
    *,
    sparsity: Any = None,
    order: str = "natural",
    format: str = "csr",
    chunk_size: int | None = None,
    check: bool = True,
) -> Any:
    """Return the Hessian of a scalar function as a sparse matrix, at the cost of a few products with it.

    The pattern is that of the gradient's Jacobian. A star colouring uses the symmetry, so that fewer
    directions do than for a Jacobian of the same pattern; each is one forward pass over the gradient.
    Source: Coleman and Moré (1984), Estimation of sparse Hessian matrices and graph coloring problems.

    Parameters
    ----------
    function : callable
        Takes a float tensor or a pytree of them, returns one element.
    x : tensor or pytree of tensors, optional
        The point. Without it a reusable function of the point is returned.
    sparsity : sparse matrix or array, optional
        The pattern, shape (n, n); either triangle will do. Detected by default.
    order : {"natural", "largest_first", "smallest_last"}
        In which order columns choose colours.
    format : {"csr", "coo"}
        The format of the result.
    chunk_size : int, optional
        How many directions are pushed at once; by default as many as keep memory bounded.
    check : bool, default True
        Compare with the derivative in one random direction where the pattern was not detected at this point.

    Returns
    -------
    scipy.sparse.csr_array or coo_array, or SparseDerivative
        Of shape (n, n), symmetric, in the dtype of the input.

    Raises
    ------
    ArgumentError
        If a nonzero lies outside the given pattern, or there is no such order or format.
    ShapeError
        If the function returns no scalar, or the pattern does not fit it.
    DTypeError
        If an input is not of a float dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> chain = lambda x: (x[1:] * x[:-1] ** 2).sum()
    >>> print(eo.sparse_hessian(chain, eo.tensor([1.0, 2.0, 3.0])).toarray())
    [[4. 2. 0.]
     [2. 6. 4.]
     [0. 4. 0.]]
    """
    made = SparseDerivative(
        function, "sparse_hessian", "hessian",
        sparsity=sparsity, order=order, format=format, chunk_size=chunk_size, check=check,
    )  # fmt: skip
    return made if x is None else made(x)
