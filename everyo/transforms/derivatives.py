"""`grad`, `value_and_grad`, `vjp` and `linearize`: reverse mode as function transformations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.functions import Transformed
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.ops.axes import as_integers
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_function, require_transformable
from everyo.transforms.custom_values import conjugated
from everyo.transforms.directions import fitting
from everyo.transforms.linearity import transposing
from everyo.transforms.reverse import tape
from everyo.transforms.trees import (
    differentiable,
    flatten,
    matching,
    returned,
    split_aux,
    tree_map,
    unflatten,
)

Function = Callable[..., Any]


def as_names(argnames: Any, operation: str) -> list[Any]:
    """Return `argnames` as a list; DTypeError for what is neither a name nor several."""
    if isinstance(argnames, str) or not isinstance(argnames, Iterable):
        argnames = [argnames]
    names = list(argnames)
    for name in names:
        if not isinstance(name, str):
            raise DTypeError(
                "argnames holds something else than names",
                operation=operation,
                expected="a str, or several",
                found=repr(name),
                remedy="name positions with argnums",
            )
    return names


class Arguments:
    """The arguments of a call, and which of them are differentiated."""

    def __init__(
        self, args: Sequence[Any], kwargs: dict[str, Any], argnums: Any, argnames: Any, operation: str
    ) -> None:
        self.args, self.kwargs = list(args), dict(kwargs)
        if argnums is None and argnames is None:
            argnums = 0
        positions = [] if argnums is None else as_integers(argnums, "argnums", operation)
        names = [] if argnames is None else as_names(argnames, operation)
        self.keys: list[Any] = [*(self._position(n, operation) for n in positions), *names]
        self.single = (
            len(self.keys) == 1
            and not isinstance(argnums, (tuple, list))
            and (argnames is None or isinstance(argnames, str))
        )
        for name in names:
            if name not in self.kwargs:
                raise ArgumentError(
                    f"there is no keyword argument {name!r} in this call",
                    operation=operation,
                    expected=", ".join(self.kwargs) or "keyword arguments",
                    found=name,
                    remedy="pass it by keyword, or name its position with argnums",
                )
        if len(set(self.keys)) < len(self.keys):
            self._refuse_twice(operation)
        self.leaves: list[Any] = []
        self.structures: list[tuple[Any, int]] = []
        for key in self.keys:
            leaves, structure = flatten(self.kwargs[key] if isinstance(key, str) else self.args[key])
            self.leaves += leaves
            self.structures.append((structure, len(leaves)))
        self.points = differentiable(self.leaves, operation)

    def _refuse_twice(self, operation: str) -> None:
        """Raise for an argument that is named twice: which of the two derivatives would be its own?"""
        twice = next(key for key in self.keys if self.keys.count(key) > 1)
        raise ArgumentError(
            f"argnums and argnames name argument {twice!r} twice",
            operation=operation,
            expected="each argument once",
            found=", ".join(map(repr, self.keys)),
            remedy="name it once; negative positions count from the end",
        )

    def _position(self, number: int, operation: str) -> int:
        if not -len(self.args) <= number < len(self.args):
            raise ArgumentError(
                f"argnums names argument {number}, but the call has {len(self.args)}",
                operation=operation,
                expected=f"positions below {len(self.args)}",
                found=str(number),
                remedy="pass the argument by position, or name it with argnames",
            )
        return number % len(self.args)

    def trees(self, leaves: Sequence[Any]) -> list[Any]:
        """Return new leaves in the structures of the chosen arguments."""
        found, start = [], 0
        for structure, count in self.structures:
            found.append(unflatten(structure, leaves[start : start + count]))
            start += count
        return found

    def result(self, leaves: Sequence[Any]) -> Any:
        """Return a leaf for each chosen leaf as the transformation's result: a tree, or a tuple of them."""
        trees = self.trees(leaves)
        return trees[0] if self.single else tuple(trees)

    def call(self, function: Function, leaves: Sequence[Any]) -> Any:
        """Call the function with the chosen arguments replaced."""
        args, kwargs = list(self.args), dict(self.kwargs)
        for key, tree in zip(self.keys, self.trees(leaves), strict=True):
            if isinstance(key, str):
                kwargs[key] = tree
            else:
                args[key] = tree
        return function(*args, **kwargs)


@explained
def value_and_grad(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
) -> Function:
    """Return a function that gives the value of `function` and its gradient.

    Parameters
    ----------
    function : callable
        Returns a real scalar (one element), computed from tensors.
    argnums : int or sequence of int, optional
        Which positional arguments are differentiated; each may be a pytree of tensors. The first one, if
        neither `argnums` nor `argnames` is given.
    argnames : str or sequence of str, optional
        Which keyword arguments are differentiated, after those of `argnums`.
    has_aux : bool, default False
        The function returns ``(value, aux)``, and the new one ``((value, aux), gradient)``.

    Returns
    -------
    callable
        Takes what `function` takes; returns ``(value, gradient)``. The gradient has the structure,
        shapes and dtypes of the argument, zeros where the value does not depend on it; a tuple for
        several arguments.

    Raises
    ------
    ShapeError
        If the value is no scalar.
    DTypeError
        If an argument is an integer, or the value is complex.
    ArgumentError
        If `function` cannot be called, or an argument that is named does not exist.

    Examples
    --------
    >>> import everyo as eo
    >>> value, gradient = eo.value_and_grad(lambda p: p["a"] * p["b"])({"a": 2.0, "b": 5.0})
    >>> value.item(), gradient["a"].item(), gradient["b"].item()
    (10.0, 5.0, 2.0)
    """

    require_transformable("value_and_grad", function, argnums)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, "value_and_grad")
        gradient, aux, output, recorder = _differentiated(function, arguments, has_aux, "value_and_grad")
        value = recorder.value(output)
        return ((value, aux), gradient) if has_aux else (value, gradient)

    options = {"argnums": argnums, "argnames": argnames, "has_aux": has_aux}
    return Transformed(transformed, function, value_and_grad, **options)


def _differentiated(
    function: Function, arguments: Arguments, has_aux: bool, operation: str
) -> tuple[Any, Any, Tensor, Any]:
    """Return gradient and auxiliary data of a call, its output on the tape, and the tape."""
    recorder, leaves, _, aux = on_tape(function, arguments, has_aux, operation)
    output = _scalar(leaves, operation)
    gradients = recorder.pull([output], [None], retain=False)
    return arguments.result(gradients), aux, output, recorder


@explained
def grad(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
) -> Function:
    """Return a function that gives the gradient of a scalar `function`.

    Parameters
    ----------
    function : callable
        Returns a real scalar (one element), computed from tensors.
    argnums : int or sequence of int, optional
        Which positional arguments are differentiated; the first one by default.
    argnames : str or sequence of str, optional
        Which keyword arguments are differentiated, after those of `argnums`.
    has_aux : bool, default False
        The function returns ``(value, aux)``, and the new one ``(gradient, aux)``.

    Returns
    -------
    callable
        Takes what `function` takes; returns the gradient: of the structure, shapes and
        dtypes of the argument; a tuple for several arguments.

    Raises
    ------
    ShapeError
        If the value is no scalar.
    DTypeError
        If an argument is an integer, or the value is complex.
    ArgumentError
        If `function` cannot be called, or an argument that is named does not exist.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.grad(lambda x: x**3)(2.0))
    12.0
    >>> print(eo.grad(eo.grad(eo.grad(lambda x: x**3)))(2.0))
    6.0
    """
    gradient = gradient_of(function, argnums, argnames, has_aux, "grad")
    return Transformed(gradient, function, grad, argnums=argnums, argnames=argnames, has_aux=has_aux)


def gradient_of(function: Function, argnums: Any, argnames: Any, has_aux: bool, operation: str) -> Function:
    """Return the function inside `grad`; `operation` is what errors name."""

    require_transformable(operation, function, argnums)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, operation)
        gradient, aux, _, _ = _differentiated(function, arguments, has_aux, operation)
        return (gradient, aux) if has_aux else gradient

    return transformed


@explained
def vjp(function: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of a function and its pullback.

    Parameters
    ----------
    function : callable
        Takes the primals, returns a pytree of tensors.
    *primals : pytrees of tensors
        Where it is evaluated.
    has_aux : bool, default False
        The function returns ``(value, aux)``.

    Returns
    -------
    value : pytree
        ``function(*primals)``.
    pullback : callable
        ``pullback(cotangent)`` takes a tree like `value` and returns a tuple with ``J.T @ cotangent``
        for each primal; for complex values it is ``J.conj().T @ cotangent``. It may be called any number
        of times.
    aux : any
        Only with `has_aux`.

    Raises
    ------
    ShapeError, DTypeError
        If a cotangent does not fit the value, or a primal is an integer.

    Examples
    --------
    >>> import everyo as eo
    >>> value, pullback = eo.vjp(lambda x, y: x * y, eo.tensor([2.0]), eo.tensor([5.0]))
    >>> [g.item() for g in pullback(eo.tensor([10.0]))]
    [50.0, 20.0]
    """
    return pulled_back(function, primals, has_aux, "vjp")


def pulled_back(function: Function, primals: Sequence[Any], has_aux: bool, operation: str) -> Any:
    """Return what `vjp` returns; `operation` is what errors name."""
    require_function(operation, function)
    arguments = Arguments(primals, {}, tuple(range(len(primals))), None, operation)
    recorder, outputs, structure, aux = on_tape(function, arguments, has_aux, operation)
    values = [recorder.value(o) for o in outputs]

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        seeds = fitting(matching(cotangent, structure, operation), values, operation, "cotangent")
        return arguments.result(recorder.pull(outputs, seeds, retain=True))

    value = unflatten(structure, values)
    return (value, pullback, aux) if has_aux else (value, pullback)


def pullback(function: Function, *primals: Any) -> tuple[Any, Callable[[Sequence[Any]], list[Any]]]:
    """Return a function's results and its pullback as rules call it: a plain transpose, no conjugates."""
    results, back = vjp(function, *primals)

    def pull(cotangents: Sequence[Any]) -> list[Any]:
        return [conjugated(c) for c in back(type(results)(map(conjugated, cotangents)))]

    return results, pull


@explained
def linearize(function: Function, *primals: Any) -> tuple[Any, Function]:
    """Return the value of a function and its pushforward at a point, without evaluating it again.

    The pullback is linear in its cotangent; the pushforward is the transpose of that linear map, so it
    needs what the pullback has saved and no new evaluation of the function.

    Parameters
    ----------
    function : callable
        Takes the primals, returns a tensor or a pytree of tensors.
    *primals : pytrees of tensors
        Where it is linearized.

    Returns
    -------
    value : pytree
        ``function(*primals)``.
    pushforward : callable
        ``pushforward(*tangents)`` returns ``J @ tangents``, a tree like `value`; zeros where that is of an
        integer or boolean dtype.

    Raises
    ------
    DTypeError
        If a primal is an integer, or a tangent has another dtype than its primal.
    ShapeError
        If a tangent does not fit its primal.

    Examples
    --------
    >>> import everyo as eo
    >>> value, pushforward = eo.linearize(eo.sin, eo.tensor(0.0))
    >>> pushforward(eo.tensor(2.0)).item()
    2.0
    """
    require_function("linearize", function)
    arguments = Arguments(primals, {}, tuple(range(len(primals))), None, "linearize")
    recorder, outputs, structure, _ = on_tape(function, arguments, False, "linearize")
    values = [recorder.value(o) for o in outputs]
    smooth = [i for i, v in enumerate(values) if v.dtype.kind in DIFFERENTIABLE]

    def pullback(*cotangents: Tensor) -> Any:
        return recorder.pull([outputs[i] for i in smooth], cotangents, retain=True)

    token = transposing.set(True)
    try:
        transpose = vjp(pullback, *(op.zeros_like(values[i]) for i in smooth))[1] if smooth else None
    finally:
        transposing.reset(token)
    _, primal_structure = flatten(primals)

    def pushforward(*tangents: Any) -> Any:
        given = matching(tangents, primal_structure, "linearize")
        directions = fitting(given, arguments.points, "linearize", "tangent")
        pushed = [op.zeros_like(v) for v in values]
        if transpose is not None:
            for i, tangent in zip(smooth, transpose(directions), strict=True):
                pushed[i] = tangent
        return unflatten(structure, pushed)

    return unflatten(structure, values), pushforward


def on_tape(
    function: Function, arguments: Arguments, has_aux: bool, operation: str
) -> tuple[Any, list[Any], Any, Any]:
    """Call a function on a new tape; return the tape, leaves and structure of the result, and auxiliary data.

    The leaves are values of the tape, the tensors in the auxiliary data are those of the level below.
    """
    with tape() as recorder:
        variables = [recorder.variable(p) for p in arguments.points]
        result, aux = split_aux(arguments.call(function, variables), has_aux, operation)
        leaves, structure = flatten(result)
        leaves = [returned(recorder.released(leaf), operation) for leaf in leaves]
        if has_aux:
            aux = tree_map(functools.partial(_settled, recorder), aux)
    return recorder, leaves, structure, aux


def _settled(recorder: Any, x: Any) -> Any:
    """Return a leaf of the auxiliary data on the level below."""
    return recorder.value(recorder.released(x)) if isinstance(x, Tensor) else x


def _scalar(leaves: Sequence[Tensor], operation: str) -> Tensor:
    """Return the one leaf of a result that must be a real scalar."""
    if len(leaves) != 1:
        raise ShapeError(
            "the function returned several values" if leaves else "the function returned nothing",
            operation=operation,
            expected="one scalar",
            found=f"a tree of {len(leaves)} values" if leaves else "None, or a tree without tensors",
            remedy="return (value, aux) and pass has_aux=True, or use jacobian"
            if leaves
            else "let the function return its value",
        )
    output = leaves[0]
    if output.size != 1:
        raise ShapeError(
            "the function returned no scalar",
            operation=operation,
            inputs=describe(output),
            expected="one element",
            found=f"shape {tuple(output.shape)}",
            remedy="reduce it, for example with .sum(); "
            + (
                "for all second derivatives take eo.jacobian twice"
                if operation == "hessian"
                else "for all derivatives use eo.jacobian, or eo.hessian in place of grad of grad; "
                "for some eo.vjp with a cotangent"
            ),
        )
    if output.dtype.kind == "c":
        raise DTypeError(
            "the function returned a complex value",
            operation=operation,
            expected="a real value",
            found=str(output.dtype),
            remedy="return a real loss such as eo.abs(z), or use eo.vjp with a cotangent",
        )
    return output
