"""`grad`, `value_and_grad`, `vjp` and `linearize`: reverse mode as function transformations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.transforms.levels import as_tensor
from everyo.transforms.reverse import tape
from everyo.transforms.trees import differentiable, flatten, matching, split_aux, unflatten

Function = Callable[..., Any]


class Arguments:
    """The arguments of a call, and which of them are differentiated."""

    def __init__(
        self, args: Sequence[Any], kwargs: dict[str, Any], argnums: Any, argnames: Any, operation: str
    ) -> None:
        self.args, self.kwargs = list(args), dict(kwargs)
        if argnums is None and argnames is None:
            argnums = 0
        positions = [] if argnums is None else [argnums] if isinstance(argnums, int) else list(argnums)
        names = [] if argnames is None else [argnames] if isinstance(argnames, str) else list(argnames)
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
        self.leaves: list[Any] = []
        self.structures: list[tuple[Any, int]] = []
        for key in self.keys:
            leaves, structure = flatten(self.kwargs[key] if isinstance(key, str) else self.args[key])
            self.leaves += leaves
            self.structures.append((structure, len(leaves)))
        self.points = differentiable(self.leaves, operation)

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

    Examples
    --------
    >>> import everyo as eo
    >>> value, gradient = eo.value_and_grad(lambda p: p["a"] * p["b"])({"a": 2.0, "b": 5.0})
    >>> value.item(), gradient["a"].item(), gradient["b"].item()
    (10.0, 5.0, 2.0)
    """

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        arguments = Arguments(args, kwargs, argnums, argnames, "grad")
        with tape() as recorder:
            variables = [recorder.variable(p) for p in arguments.points]
            result, aux = split_aux(arguments.call(function, variables), has_aux, "grad")
            recorder.released(result)
        output = _scalar(result)
        gradients = recorder.pull([output], [None], variables)
        value = recorder.value(output)
        answer = arguments.result(gradients)
        return ((value, _values(aux, recorder)), answer) if has_aux else (value, answer)

    return transformed


def grad(
    function: Function,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    has_aux: bool = False,
) -> Function:
    """Return a function that gives the gradient of a scalar `function`.

    Parameters
    ----------
    function, argnums, argnames, has_aux
        As for `value_and_grad`.

    Returns
    -------
    callable
        Takes what `function` takes; returns the gradient, or ``(gradient, aux)``.

    Raises
    ------
    ShapeError, DTypeError
        As for `value_and_grad`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.grad(lambda x: x**3)(2.0))
    12.0
    >>> print(eo.grad(eo.grad(eo.grad(lambda x: x**3)))(2.0))
    6.0
    """
    both = value_and_grad(function, argnums, argnames, has_aux)

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return transformed


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
        for each primal. It may be called any number of times.
    aux : any
        Only with `has_aux`.

    Raises
    ------
    ShapeError, DTypeError
        If a cotangent does not fit the value.

    Examples
    --------
    >>> import everyo as eo
    >>> value, pullback = eo.vjp(lambda x, y: x * y, eo.tensor([2.0]), eo.tensor([5.0]))
    >>> [g.item() for g in pullback(eo.tensor([10.0]))]
    [50.0, 20.0]
    """
    arguments = Arguments(primals, {}, tuple(range(len(primals))), None, "vjp")
    with tape() as recorder:
        variables = [recorder.variable(p) for p in arguments.points]
        result, aux = split_aux(arguments.call(function, variables), has_aux, "vjp")
        leaves, structure = flatten(result)
        outputs = [as_tensor(recorder.released(leaf)) for leaf in leaves]
    value = unflatten(structure, [recorder.value(o) for o in outputs])

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        seeds = matching(cotangent, structure, "vjp")
        return arguments.result(recorder.pull(outputs, seeds, variables))

    return (value, pullback, _values(aux, recorder)) if has_aux else (value, pullback)


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
        ``pushforward(*tangents)`` returns ``J @ tangents``, a tree like `value`.

    Examples
    --------
    >>> import everyo as eo
    >>> value, pushforward = eo.linearize(eo.sin, eo.tensor(0.0))
    >>> pushforward(eo.tensor(2.0)).item()
    2.0
    """
    value, pullback = vjp(function, *primals)
    leaves, structure = flatten(value)
    zeros = unflatten(structure, [op.zeros_like(leaf) for leaf in leaves])
    _, transpose = vjp(pullback, zeros)

    def pushforward(*tangents: Any) -> Any:
        return transpose(tangents)[0]

    return value, pushforward


def _values(aux: Any, recorder: Any) -> Any:
    """Return auxiliary data with its tensors on the level below."""
    leaves, structure = flatten(aux)
    return unflatten(structure, [recorder.value(x) if isinstance(x, Tensor) else x for x in leaves])


def _scalar(result: Any) -> Tensor:
    leaves, structure = flatten(result)
    if structure is not None and len(leaves) != 1:
        raise ShapeError(
            "the function returned several values",
            operation="grad",
            expected="one scalar",
            found=f"a tree of {len(leaves)} values",
            remedy="return (value, aux) and pass has_aux=True, or use jacobian",
        )
    output = as_tensor(leaves[0])
    if output.size != 1:
        raise ShapeError(
            "the function returned no scalar",
            operation="grad",
            inputs=describe(output),
            expected="one element",
            found=f"shape {tuple(output.shape)}",
            remedy="reduce it, for example with .sum(), or use eo.jacobian, or eo.vjp with a cotangent",
        )
    if output.dtype.kind == "c":
        raise DTypeError(
            "the function returned a complex value",
            operation="grad",
            expected="a real value",
            found=str(output.dtype),
            remedy="return a real loss such as eo.abs(z), or use eo.vjp with a cotangent",
        )
    return output
