"""Whole Jacobians and Hessians, and their products with vectors, from `jvp`, `vjp` and `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError
from everyo.ops.ranges import eye
from everyo.transforms.derivatives import Arguments, grad, vjp
from everyo.transforms.forward import jvp
from everyo.transforms.levels import as_tensor
from everyo.transforms.trees import flatten, split_aux, unflatten
from everyo.transforms.vectorize import vmap

Function = Callable[..., Any]


def _basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return for each tensor all unit vectors of the joint space: shape (total, *shape)."""
    total, start, found = sum(t.size for t in tensors), 0, []
    for t in tensors:
        unit = eye(total, t.size, k=-start, dtype=t.dtype, device=t.device)
        found.append(op.reshape(unit, shape=(total, *t.shape)))
        start += t.size
    return found


def _split(rows: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return rows over the joint space of `tensors`, one block for each, of shape (*tensor, *rest)."""
    start, found = 0, []
    for t in tensors:
        block = rows[start : start + t.size]
        found.append(op.reshape(block, shape=(*t.shape, *rows.shape[1:])))
        start += t.size
    return found


def _moved(block: Tensor, rank: int) -> Tensor:
    """Return a block with its first `rank` axes last."""
    axes = (*range(rank, block.ndim), *range(rank))
    return op.transpose(block, axes=axes) if rank and rank < block.ndim else block


def jacrev(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Jacobian by reverse mode: one pullback for each output element.

    Parameters
    ----------
    function : callable
        Takes tensors, returns a tensor or a pytree of tensors.
    argnums, argnames, has_aux
        As for `grad`.
    chunk_size : int, optional
        How many pullbacks run at once; it bounds the memory.

    Returns
    -------
    callable
        Gives ``J[i..., j...] = d output[i...] / d input[j...]``, of shape ``output.shape + input.shape``: a
        tree like the output whose leaves are trees like the argument.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.jacrev(lambda x: x * x)(eo.tensor([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, "jacrev")

        def flat(*leaves: Any) -> tuple[Any, Any]:
            return split_aux(arguments.call(function, leaves), has_aux, "jacrev")

        value, pullback, aux = vjp(flat, *arguments.points, has_aux=True)
        outputs, structure = flatten(value)
        seeds = vmap(lambda *units: pullback(unflatten(structure, units)), chunk_size=chunk_size)
        columns = seeds(*_basis(outputs))  # for each input: shape (total outputs, *input)
        by_input = [_split(c, outputs) for c in columns]
        blocks = [arguments.result([column[k] for column in by_input]) for k in range(len(outputs))]
        jacobian = unflatten(structure, blocks)
        return (jacobian, aux) if has_aux else jacobian

    return transformed


def jacfwd(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Jacobian by forward mode: one pushforward for each input element.

    Parameters and results are those of `jacrev`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.jacfwd(lambda x: x * x)(eo.tensor([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, "jacfwd")
        points, seen = arguments.points, {}

        def flat(*leaves: Any) -> Any:
            result, _ = split_aux(arguments.call(function, leaves), has_aux, "jacfwd")
            outputs, seen["structure"] = flatten(result)
            return tuple(as_tensor(o) for o in outputs)

        def push(*units: Any) -> Any:
            return jvp(flat, points, units)[1]

        rows = vmap(push, chunk_size=chunk_size)(*_basis(points))  # for each output: (total inputs, *output)
        blocks = []
        for row in rows:
            parts = zip(_split(row, points), points, strict=True)
            blocks.append(arguments.result([_moved(part, p.ndim) for part, p in parts]))
        jacobian = unflatten(seen["structure"], blocks)
        # What the function returns beside the output belongs to a batch of passes: ask for it alone.
        return (jacobian, function(*args, **kwargs)[1]) if has_aux else jacobian

    return transformed


def jacobian(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Jacobian in the cheaper direction.

    Forward mode costs one pass for each input element, reverse mode one for each output element and
    what the function saves; forward mode is taken unless there are fewer outputs than inputs.

    Parameters and results are those of `jacrev`.

    Examples
    --------
    >>> import everyo as eo
    >>> J = eo.jacobian(lambda x: eo.stack([x[0] * x[1], x[0]]))(eo.tensor([2.0, 3.0]))
    >>> print(J)
    [[3. 2.]
     [1. 0.]]
    """

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, "jacobian")
        inputs = sum(p.size for p in arguments.points)
        # One plain call tells the size of the output: little beside the passes that follow.
        output, _ = split_aux(function(*args, **kwargs), has_aux, "jacobian")
        outputs = sum(as_tensor(leaf).size for leaf in flatten(output)[0])
        chosen = jacrev if outputs < inputs else jacfwd
        return chosen(function, argnums, argnames, has_aux, chunk_size=chunk_size)(*args, **kwargs)

    return transformed


def hessian(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Hessian of a scalar function: forward over reverse mode.

    Parameters
    ----------
    function, argnums, argnames, has_aux, chunk_size
        As for `jacrev`; the function returns a real scalar.

    Returns
    -------
    callable
        Gives ``H[i..., j...]``, of shape ``input.shape + input.shape``; for a tree a tree of trees.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.hessian(lambda w: w[0] ** 2 + w[0] * w[1])(eo.tensor([2.0, 2.0])))
    [[2. 1.]
     [1. 0.]]
    """
    gradient = grad(function, argnums, argnames, has_aux)
    return jacfwd(gradient, argnums, argnames, has_aux, chunk_size=chunk_size)


def _as_arguments(
    primals: Any, vectors: Any, operation: str
) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
    """Return points and vectors as tuples of arguments, and whether there was one bare argument."""
    if isinstance(primals, tuple) != isinstance(vectors, tuple) or (
        isinstance(primals, tuple) and len(primals) != len(vectors)
    ):
        raise ArgumentError(
            "there must be one vector for each primal",
            operation=operation,
            expected="two tuples of one length, or one argument and one vector",
            found=f"{type(primals).__name__} and {type(vectors).__name__}",
        )
    bare = not isinstance(primals, tuple)
    return ((primals,), (vectors,), True) if bare else (primals, vectors, False)


def hvp(function: Function, primals: Any, tangents: Any) -> Any:
    """Return the product of the Hessian of a scalar function with a vector: forward over reverse mode.

    The Hessian is never formed; the cost is a few gradients.

    Parameters
    ----------
    function : callable
        Returns a real scalar.
    primals : pytree, or a tuple with one pytree for each argument
        Where the Hessian is taken.
    tangents : like `primals`
        The vector.

    Returns
    -------
    like `primals`
        ``H @ tangents``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.hvp(lambda x: (x**3).sum(), eo.tensor([1.0, 2.0]), eo.tensor([1.0, 0.0])))
    [6. 0.]
    """
    points, vectors, bare = _as_arguments(primals, tangents, "hvp")
    gradient = grad(function, tuple(range(len(points))))
    product = jvp(gradient, points, vectors)[1]
    return product[0] if bare else product


def vhp(function: Function, primals: Any, cotangents: Any) -> Any:
    """Return the product of a vector with the Hessian of a scalar function: reverse over reverse mode.

    Equal to `hvp`, as Hessians are symmetric; `hvp` is usually the faster.

    Parameters
    ----------
    function, primals, cotangents
        As for `hvp`.

    Returns
    -------
    like `primals`
        ``cotangents @ H``.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.vhp(lambda x: (x**3).sum(), eo.tensor([1.0, 2.0]), eo.tensor([1.0, 0.0])))
    [6. 0.]
    """
    points, vectors, bare = _as_arguments(primals, cotangents, "vhp")
    _, pullback = vjp(grad(function, tuple(range(len(points)))), *points)
    product = pullback(vectors)
    return product[0] if bare else product
