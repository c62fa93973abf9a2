"""Whole Jacobians and Hessians, and their products with vectors, from `jvp`, `vjp` and `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.functions import Transformed
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError, describe
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_transformable
from everyo.transforms.derivatives import Arguments, gradient_of, on_tape, pulled_back
from everyo.transforms.forward import along, push
from everyo.transforms.passes import (
    Watch,
    in_batches,
    promoted,
    require_holomorphic,
    require_inputs,
    require_outputs,
)
from everyo.transforms.trees import flatten, require_some, returned, split_aux, unflatten

Function = Callable[..., Any]
OPTIONS = ("argnums", "argnames", "has_aux", "holomorphic", "chunk_size")


def _split(rows: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return rows over the joint space of `tensors`, one block for each, of shape (*tensor, *rest)."""
    start, found = 0, []
    for t in tensors:
        block = rows if len(tensors) == 1 else rows[start : start + t.size]
        found.append(block if t.ndim == 1 else op.reshape(block, shape=(*t.shape, *rows.shape[1:])))
        start += t.size
    return found


def _moved(block: Tensor, rank: int) -> Tensor:
    """Return a block with its first `rank` axes last."""
    axes = (*range(rank, block.ndim), *range(rank))
    return op.transpose(block, axes=axes) if rank and rank < block.ndim else block


@explained
def jacrev(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Jacobian by reverse mode: one pullback for each output element.

    Parameters
    ----------
    function : callable
        Takes tensors, returns a tensor or a pytree of tensors.
    argnums : int or sequence of int, optional
        Which positional arguments are differentiated; the first one by default.
    argnames : str or sequence of str, optional
        Which keyword arguments are differentiated, after those of `argnums`.
    has_aux : bool, default False
        The function returns ``(value, aux)``, and the new one ``(Jacobian, aux)``.
    holomorphic : bool, default False
        The inputs are complex and the function has a complex derivative ``df/dz``, which is returned.
        Without it inputs are real; of a complex output the Jacobian is complex.
    chunk_size : int, optional
        How many passes run at once. It bounds the memory; by default no array of such a batch has more than
        about four million elements, unless one pass alone does.

    Returns
    -------
    callable
        Gives ``J[i..., j...] = d output[i...] / d input[j...]``, of shape ``output.shape + input.shape``: a
        tree like the output whose leaves are trees like the argument.

    Raises
    ------
    DTypeError
        If an argument is an integer, or complex without `holomorphic`.
    ArgumentError
        If `chunk_size` is below 1, an argument does not exist, or the function is not `holomorphic`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.jacrev(lambda x: x * x)(eo.tensor([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """

    require_transformable("jacrev", function, argnums)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, "jacrev")
        require_inputs(arguments.points, holomorphic, "jacrev")
        recorder, outputs, structure, aux = on_tape(function, arguments, has_aux, "jacrev")
        pull = functools.partial(_pulled, recorder, outputs)
        if holomorphic:
            require_outputs(outputs, "jacrev")
            require_holomorphic(pull, outputs, "jacrev")
            columns = [op.conj(c) for c in in_batches(pull, outputs, chunk_size, arguments.points)]
        elif any(_is_complex(x) for x in outputs):
            columns = in_batches(functools.partial(_both_parts, pull), outputs, chunk_size, arguments.points)
        else:
            columns = in_batches(pull, outputs, chunk_size, arguments.points)
        parts = [_split(c, outputs) for c in columns]  # for each input, and perhaps its imaginary part
        rows = zip(*parts, strict=True) if parts else [()] * len(outputs)
        blocks = [
            arguments.result(_joined(row, arguments.points, x)) for row, x in zip(rows, outputs, strict=True)
        ]
        jacobian = unflatten(structure, blocks)
        return (jacobian, aux) if has_aux else jacobian

    return _named(transformed, function, jacrev, argnums, argnames, has_aux, holomorphic, chunk_size)


def _named(transformed: Any, function: Function, maker: Function, *options: Any) -> Function:
    """Return what a transformation has made as its result, which is pickled with these options."""
    return Transformed(transformed, function, maker, **dict(zip(OPTIONS, options, strict=True)))


def _is_complex(x: Tensor) -> bool:
    return bool(x.dtype.kind == "c")


def _pulled(recorder: Any, outputs: Sequence[Tensor], *cotangents: Tensor) -> list[Tensor]:
    return recorder.pull(outputs, cotangents, retain=True)


def _both_parts(pull: Any, *cotangents: Tensor) -> list[Tensor]:
    """Return what cotangents give, and what they give where complex outputs get them turned by i.

    With respect to a real input that is the real part of the derivative, and the imaginary one.
    """
    turned = [op.multiply(u, 1j) if _is_complex(u) else op.zeros_like(u) for u in cotangents]
    return [*pull(*cotangents), *pull(*turned)]


def _joined(row: Sequence[Tensor], points: Sequence[Tensor], output: Tensor) -> Sequence[Tensor]:
    """Return the blocks of one output, made complex where a real input has both parts of its derivative."""
    count = len(points)
    blocks = row[:count]
    if len(row) > count and _is_complex(output):
        blocks = [op.add(a, op.multiply(b, 1j)) for a, b in zip(blocks, row[count:], strict=True)]
    return [promoted(b, p, output.dtype) for b, p in zip(blocks, points, strict=True)]


@explained
def jacfwd(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Jacobian by forward mode: one pushforward for each input element.

    Parameters
    ----------
    function : callable
        Takes tensors, returns a tensor or a pytree of tensors.
    argnums : int or sequence of int, optional
        Which positional arguments are differentiated; the first one by default.
    argnames : str or sequence of str, optional
        Which keyword arguments are differentiated, after those of `argnums`.
    has_aux : bool, default False
        The function returns ``(value, aux)``, and the new one ``(Jacobian, aux)``.
    holomorphic : bool, default False
        The inputs are complex and the function has a complex derivative ``df/dz``, which is returned.
    chunk_size : int, optional
        How many passes run at once. It bounds the memory; by default as many as it allows.

    Returns
    -------
    callable
        Gives ``J[i..., j...] = d output[i...] / d input[j...]``, of shape ``output.shape + input.shape``: a
        tree like the output whose leaves are trees like the argument.

    Raises
    ------
    DTypeError
        If an argument is an integer, or complex without `holomorphic`.
    ArgumentError
        If `chunk_size` is below 1, an argument does not exist, or the function is not `holomorphic`.
    UnsupportedOperationError
        If `function` draws random numbers: it runs under `vmap`. Draw before, or use `jacrev`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.jacfwd(lambda x: x * x)(eo.tensor([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """

    made = _forward(function, argnums, argnames, has_aux, holomorphic, chunk_size, "jacfwd")
    return _named(made, function, jacfwd, argnums, argnames, has_aux, holomorphic, chunk_size)


def _forward(
    function: Function,
    argnums: Any,
    argnames: Any,
    has_aux: bool,
    holomorphic: bool,
    chunk_size: int | None,
    operation: str,
) -> Function:
    """Return the function inside `jacfwd`; `operation` is what errors name."""

    require_transformable(operation, function, argnums)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, operation)
        points, structure = arguments.points, None
        require_some(points, operation)
        require_inputs(points, holomorphic, operation)

        def pushforward(*directions: Any) -> list[Tensor]:
            nonlocal structure
            call = functools.partial(arguments.call, function)
            values, tangents, structure, _ = push(call, points, directions, has_aux, operation)
            if holomorphic:
                require_outputs(values, operation)
            return tangents

        if holomorphic:
            require_holomorphic(pushforward, points, operation)
        blocks = []
        for row in in_batches(pushforward, points, chunk_size):  # each: (total inputs, *output)
            parts = zip(_split(row, points), points, strict=True)
            blocks.append(arguments.result([promoted(_moved(b, p.ndim), p, row.dtype) for b, p in parts]))
        jacobian = unflatten(structure, blocks)
        # What the function returns beside the output belongs to a batch of passes: ask for it alone.
        return (jacobian, function(*args, **kwargs)[1]) if has_aux else jacobian

    return transformed


@explained
def jacobian(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Jacobian in the cheaper direction.

    Forward mode costs one pass for each input element, reverse mode one for each output element and
    what the function saves; forward mode is taken unless there are fewer outputs than inputs.

    Parameters
    ----------
    function : callable
        Takes tensors, returns a tensor or a pytree of tensors.
    argnums : int or sequence of int, optional
        Which positional arguments are differentiated; the first one by default.
    argnames : str or sequence of str, optional
        Which keyword arguments are differentiated, after those of `argnums`.
    has_aux : bool, default False
        The function returns ``(value, aux)``, and the new one ``(Jacobian, aux)``.
    holomorphic : bool, default False
        The inputs are complex and the function has a complex derivative ``df/dz``, which is returned.
    chunk_size : int, optional
        How many passes run at once. It bounds the memory; by default as many as it allows.

    Returns
    -------
    callable
        Gives ``J[i..., j...] = d output[i...] / d input[j...]``, of shape ``output.shape + input.shape``: a
        tree like the output whose leaves are trees like the argument.

    Raises
    ------
    DTypeError
        If an argument is an integer, or complex without `holomorphic`.
    ArgumentError
        If `chunk_size` is below 1, an argument does not exist, or the function is not `holomorphic`.
    UnsupportedOperationError
        If `function` draws random numbers and forward mode is taken.

    Examples
    --------
    >>> import everyo as eo
    >>> J = eo.jacobian(lambda x: eo.stack([x[0] * x[1], x[0]]))(eo.tensor([2.0, 3.0]))
    >>> print(J)
    [[3. 2.]
     [1. 0.]]
    """

    require_transformable("jacobian", function, argnums)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, "jacobian")
        require_inputs(arguments.points, holomorphic, "jacobian")
        inputs = sum(p.size for p in arguments.points)
        # One plain call tells the size of the output: little beside the passes that follow.
        with Watch("jacobian") as watch:
            result = arguments.call(function, watch.copies(arguments.points))
            for leaf in flatten(result)[0]:
                watch.released(leaf)
            output, _ = split_aux(result, has_aux, "jacobian")
            leaves = [returned(leaf, "jacobian") for leaf in flatten(output)[0]]
        outputs = sum(x.size * (2 if _is_complex(x) and not holomorphic else 1) for x in leaves)
        chosen = jacrev if outputs < inputs else jacfwd
        chosen = functools.partial(chosen, holomorphic=holomorphic, chunk_size=chunk_size)
        return chosen(function, argnums, argnames, has_aux)(*args, **kwargs)

    return _named(transformed, function, jacobian, argnums, argnames, has_aux, holomorphic, chunk_size)


@explained
def hessian(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that gives the Hessian of a scalar function: forward over reverse mode.

    Parameters
    ----------
    function : callable
        Takes tensors, returns a real scalar.
    argnums : int or sequence of int, optional
        Which positional arguments are differentiated; the first one by default.
    argnames : str or sequence of str, optional
        Which keyword arguments are differentiated, after those of `argnums`.
    has_aux : bool, default False
        The function returns ``(value, aux)``, and the new one ``(Hessian, aux)``.
    holomorphic : bool, default False
        The inputs and the scalar are complex, and ``d2f/dz2`` is returned.
    chunk_size : int, optional
        How many passes run at once. It bounds the memory; by default as many as it allows.

    Returns
    -------
    callable
        Gives ``H[i..., j...]``, of shape ``input.shape + input.shape``; for a tree a tree of trees.

    Raises
    ------
    ShapeError
        If the value is no scalar.
    DTypeError
        If an argument is an integer, or complex without `holomorphic`.
    ArgumentError
        If `chunk_size` is below 1, an argument does not exist, or the function is not `holomorphic`.
    UnsupportedOperationError
        If `function` draws random numbers.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.hessian(lambda w: w[0] ** 2 + w[0] * w[1])(eo.tensor([2.0, 2.0])))
    [[2. 1.]
     [1. 0.]]
    """
    require_transformable("hessian", function, argnums)
    if holomorphic:
        gradient = jacrev(_complex_scalar(function, has_aux), argnums, argnames, has_aux, holomorphic=True)
    else:
        inner = gradient_of(function, argnums, argnames, has_aux, "hessian")
        gradient = functools.update_wrapper(inner, function)  # the compiler looks into what users have made
    made = _forward(gradient, argnums, argnames, has_aux, holomorphic, chunk_size, "hessian")
    return _named(made, function, hessian, argnums, argnames, has_aux, holomorphic, chunk_size)


def _complex_scalar(function: Function, has_aux: bool) -> Function:
    """Return a function with its one element as a 0-d tensor; it raises where there is another number."""

    @functools.wraps(function)
    def scalar(*args: Any, **kwargs: Any) -> Any:
        result, aux = split_aux(function(*args, **kwargs), has_aux, "hessian")
        leaves = [returned(leaf, "hessian") for leaf in flatten(result)[0]]
        if len(leaves) != 1 or leaves[0].size != 1:
            raise ShapeError(
                "the function returned no scalar",
                operation="hessian",
                inputs=describe(*leaves),
                expected="one element",
                found=f"{sum(x.size for x in leaves)} elements",
                remedy="reduce it, for example with .sum(), or take eo.jacfwd(eo.jacrev(f))",
            )
        value = op.reshape(leaves[0], shape=())
        return (value, aux) if has_aux else value

    return scalar


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
            remedy="pass tuples for several arguments: hvp(f, (x, y), (u, v))",
        )
    bare = not isinstance(primals, tuple)
    return ((primals,), (vectors,), True) if bare else (primals, vectors, False)


@explained
def hvp(function: Function, primals: Any, tangents: Any) -> Any:
    """Return the product of the Hessian of a scalar function with a vector: forward over reverse mode.

    The Hessian is never formed; the cost is a few gradients. Source: Pearlmutter (1994), Fast exact
    multiplication by the Hessian.

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

    Raises
    ------
    ShapeError
        If the value is no scalar, or a vector has another shape than its primal.
    DTypeError
        If a primal is an integer, or a vector has another dtype.
    ArgumentError
        If there is not one vector for each primal.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.hvp(lambda x: (x**3).sum(), eo.tensor([1.0, 2.0]), eo.tensor([1.0, 0.0])))
    [6. 0.]
    """
    points, vectors, bare = _as_arguments(primals, tangents, "hvp")
    gradient = gradient_of(function, tuple(range(len(points))), None, False, "hvp")
    product = along(gradient, points, vectors, False, "hvp")[1]
    return product[0] if bare else product


@explained
def vhp(function: Function, primals: Any, cotangents: Any) -> Any:
    """Return the product of a vector with the Hessian of a scalar function: reverse over reverse mode.

    Equal to `hvp`, as Hessians are symmetric. It is the faster of the two where operations are few and large;
    `hvp` is where they are many, and it needs less memory there.

    Parameters
    ----------
    function : callable
        Returns a real scalar.
    primals : pytree, or a tuple with one pytree for each argument
        Where the Hessian is taken.
    cotangents : like `primals`
        The vector.

    Returns
    -------
    like `primals`
        ``cotangents @ H``.

    Raises
    ------
    ShapeError
        If the value is no scalar, or a vector has another shape than its primal.
    DTypeError
        If a primal is an integer, or a vector has another dtype.
    ArgumentError
        If there is not one vector for each primal.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.vhp(lambda x: (x**3).sum(), eo.tensor([1.0, 2.0]), eo.tensor([1.0, 0.0])))
    [6. 0.]
    """
    points, vectors, bare = _as_arguments(primals, cotangents, "vhp")
    gradient = gradient_of(function, tuple(range(len(points))), None, False, "vhp")
    _, pullback = pulled_back(gradient, points, False, "vhp")
    product = pullback(vectors)
    return product[0] if bare else product
