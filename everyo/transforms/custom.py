"""`custom_vjp` and `custom_jvp`: functions with derivative rules of the user's own, as in JAX."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.copying import same_value
from everyo.core.functions import name_of
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, ShapeError
from everyo.ops.creation import as_tensor, zeros_like
from everyo.transforms.callables import require_function
from everyo.transforms.custom_calls import call
from everyo.transforms.custom_rules import Rules
from everyo.transforms.custom_values import MaybeTensors, Tensors, carries, detached, needs_rules
from everyo.transforms.trees import flatten, unflatten

Function = Callable[..., Any]


class _Call(Rules):
    """One call of a function whose arguments are trees; those named by `nondiff_argnums` are fixed."""

    def __init__(self, owner: _Customized, args: Sequence[Any]) -> None:
        super().__init__()
        self.owner = self.source = owner
        self.name = owner.__name__
        fixed = {n % len(args) if -len(args) <= n < len(args) else n for n in owner.nondiff_argnums}
        self.fixed = [(i, a) for i, a in enumerate(args) if i in fixed]
        self.trees = [flatten(a) for i, a in enumerate(args) if i not in fixed]
        self.tensors = [x for leaves, _ in self.trees for x in leaves if isinstance(x, Tensor)]
        self.trees = [
            ([_HOLE if isinstance(x, Tensor) else x for x in leaves], structure)
            for leaves, structure in self.trees
        ]
        self.constants = [x for leaves, _ in (*self.trees, *map(flatten, self.given())) for x in leaves]
        self.out: tuple[list[Any], Any] = ([], None)

    def arguments(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the differentiable arguments around new tensors."""
        return self._filled(tensors, lambda x: x)

    def directions(self, tangents: Sequence[Any]) -> list[Any]:
        """Return tangents in the containers of the arguments; zeros for numbers and arrays, as constants."""
        return self._filled(tangents, _zero)

    def _filled(self, tensors: Sequence[Any], constant: Callable[[Any], Any]) -> list[Any]:
        values = iter(tensors)
        return [
            unflatten(structure, [next(values) if x is _HOLE else constant(x) for x in leaves])
            for leaves, structure in self.trees
        ]

    def all_arguments(self, tensors: Sequence[Any]) -> list[Any]:
        """Return all arguments, in order."""
        args = self.arguments(tensors)
        for i, a in self.fixed:
            args.insert(i, a)
        return args

    def results(self, tree: Any) -> Tensors:
        """Return the tensors of a result, and remember what is around them."""
        leaves, structure = flatten(tree)
        leaves = [
            as_tensor(x) if hasattr(x, "dtype") or isinstance(x, (int, float, complex)) else x for x in leaves
        ]
        self.out = [_HOLE if isinstance(x, Tensor) else x for x in leaves], structure
        return [x for x in leaves if isinstance(x, Tensor)]

    def result(self, tensors: Sequence[Any]) -> Any:
        """Return a tree like the result around new tensors."""
        leaves, structure = self.out
        values = iter(tensors)
        return unflatten(structure, [next(values) if x is _HOLE else x for x in leaves])

    def given(self) -> list[Any]:
        """Return the arguments that are fixed."""
        return [a for _, a in self.fixed]


def _zero(x: Any) -> Any:
    """Return the tangent of a constant; what is no number has none and stays."""
    if isinstance(x, (int, float, complex)) and not isinstance(x, bool):
        return 0.0
    return zeros_like(x) if hasattr(x, "dtype") else x


class _Hole:
    """Stands for a tensor in a tree."""


_HOLE = _Hole()


class _Customized:
    """A function that a call replaces by its rules where it is differentiated."""

    __name__ = "function"
    definer = "defvjp"
    call: type[_Call]

    def __init__(self, function: Function, nondiff_argnums: int | Sequence[int] = ()) -> None:
        require_function(type(self).__name__, function)
        functools.update_wrapper(self, function)
        self.function = function
        self.nondiff_argnums = (
            (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        )

    def ready(self) -> bool:
        """Whether the rules are there."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if not self.ready():
            raise ArgumentError(
                "the function has no rules yet",
                operation=self.__name__,
                expected=f"a call of {self.__name__}.{self.definer} before the first use",
                found="none",
            )
        if kwargs:
            args = _positional(self.function, args, kwargs)
        rules = self.call(self, args)
        tensors, rules.tensors = rules.tensors, []  # what the backward pass needs is kept elsewhere
        if not needs_rules(tensors):
            constant = any(map(carries, tensors))  # in a `no_grad` block: the function may compute in NumPy
            own = detached(tensors) if constant else [*map(same_value, tensors)]
            return self.function(*rules.all_arguments(own))
        return rules.result(call(rules, tensors))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = functools.partial(self, instance)
        return functools.update_wrapper(bound, self.function)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return how to find the function again, or what it consists of."""
        return name_of(self) or super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"


class _VJPCall(_Call):
    """A call of a `custom_vjp` function."""

    owner: custom_vjp
    has_backward = True

    def run(self, inputs: Tensors) -> tuple[Tensors, Any]:
        pair = self.owner.fwd(*self.all_arguments(inputs))
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentError(
                "the forward rule must return a pair",
                operation=self.name,
                expected="(result, residuals)",
                found=type(pair).__name__,
                remedy="return (result, None) if the backward rule needs nothing",
            )
        return self.results(pair[0]), pair[1]

    def backward(self, kept: Any, gs: MaybeTensors, needs: tuple[bool, ...]) -> MaybeTensors:
        returned = self.owner.bwd(*self.given(), kept, self.result(gs))
        if not isinstance(returned, (tuple, list)) or len(returned) != len(self.trees):
            count = f"a tuple of {len(returned)}" if isinstance(returned, (tuple, list)) else None
            raise ShapeError(
                "the backward rule must return a tuple with one gradient for each argument",
                operation=self.name,
                expected=f"a tuple of {len(self.trees)}, with None where it is zero",
                found=count or type(returned).__name__,
                remedy=None if len(self.trees) > 1 else "write `return (gradient,)`",
            )
        found: list[Any] = []
        for i, (gradient, (leaves, structure)) in enumerate(zip(returned, self.trees, strict=True)):
            parts = _up_to(structure, gradient, len(leaves), self.name, f"the gradient of argument {i}")
            found += [part for part, leaf in zip(parts, leaves, strict=True) if leaf is _HOLE]
        return found


class custom_vjp(_Customized):
    """A function whose reverse-mode derivative is given by two rules, set with `defvjp`.

    Where nothing is differentiated, the function itself runs. Under `grad`, ``backward()`` and the like
    the forward rule runs in its place, and the backward rule gives the gradients. Forward mode (`jvp`,
    `jacfwd`, `hvp`) transposes the backward rule, so that both modes agree. A second derivative goes through
    the backward rule and through what it has kept. `vmap` maps the rules.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees of tensors. Tensors that it captures must not be differentiated: pass
        them as arguments.
    nondiff_argnums : int or sequence of int, default ()
        Positions of arguments that are passed to the rules as they are and have no gradient.

    Raises
    ------
    UnsupportedOperationError
        In forward mode, if the backward rule is not linear in the incoming gradient, as where it clips it;
        there and in derivatives of higher order, if it computes in NumPy.

    Examples
    --------
    >>> import everyo as eo
    >>> @eo.custom_vjp
    ... def log1pexp(x):
    ...     return eo.log(1 + eo.exp(x))
    >>> def forward(x):
    ...     return log1pexp(x), x
    >>> def backward(x, g):
    ...     return (g / (1 + eo.exp(-x)),)
    >>> log1pexp.defvjp(forward, backward)
    >>> print(eo.grad(log1pexp)(0.0), eo.grad(eo.grad(log1pexp))(0.0))
    0.5 0.25
    """

    call = _VJPCall
    fwd: Function | None = None
    bwd: Function | None = None

    def ready(self) -> bool:
        """Whether the rules are there."""
        return self.fwd is not None

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """Set the rules.

        Parameters
        ----------
        fwd : callable
            Takes what the function takes; returns ``(result, residuals)``, a result like the function's
            and a pytree of what `bwd` needs.
        bwd : callable
            ``bwd(*nondiff_arguments, residuals, gradient)`` returns a tuple with the gradient with respect
            to each other argument: a tree like it, or None for zero. `gradient` is a tree like the
            result. For complex values gradients are ``dL/dx + i dL/dy``.
        """
        require_function("defvjp", fwd, bwd)
        self.fwd, self.bwd = fwd, bwd


class _JVPCall(_Call):
    """A call of a `custom_jvp` function."""

    owner: custom_jvp
    has_forward_rule = True

    def run(self, inputs: Tensors) -> tuple[Tensors, Any]:
        return self.results(self.owner.function(*self.all_arguments(inputs))), list(inputs)

    def forward_rule(self, kept: Any, inputs: Tensors, tangents: MaybeTensors) -> MaybeTensors:
        moving = [zeros_like(x) if t is None else t for x, t in zip(inputs, tangents, strict=True)]
        primals, directions = tuple(self.arguments(inputs)), tuple(self.directions(moving))
        pair = self.owner.rule(*self.given(), primals, directions)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentError(
                "the jvp rule must return a pair",
                operation=self.name,
                expected="(result, tangent of the result)",
                found=type(pair).__name__,
                remedy="return (f(*primals), tangent)",
            )
        leaves, structure = self.out
        parts = _up_to(structure, pair[1], len(leaves), self.name, "the tangent of the result")
        return [part for part, leaf in zip(parts, leaves, strict=True) if leaf is _HOLE]


class custom_jvp(_Customized):
    """A function whose forward-mode derivative is given by a rule, set with `defjvp`.

    Reverse mode transposes the rule, which it runs again in the backward pass. Derivatives of higher order
    differentiate the rule. `vmap` maps it.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees of tensors. Tensors that it captures must not be differentiated: pass
        them as arguments.
    nondiff_argnums : int or sequence of int, default ()
        Positions of arguments that are passed to the rule as they are and have no derivative.

    Raises
    ------
    UnsupportedOperationError
        In reverse mode, if the rule is not linear in the tangents, or computes in NumPy.

    Examples
    --------
    >>> import everyo as eo
    >>> @eo.custom_jvp
    ... def power(x, y):
    ...     return x**y
    >>> @power.defjvp
    ... def rule(primals, tangents):
    ...     (x, y), (dx, dy) = primals, tangents
    ...     return power(x, y), y * power(x, y - 1) * dx + eo.log(x) * power(x, y) * dy
    >>> print(eo.grad(power)(3.0, 2.0))
    6.0
    """

    call = _JVPCall
    rule: Function | None = None
    definer = "defjvp"

    def ready(self) -> bool:
        """Whether the rule is there."""
        return self.rule is not None

    def defjvp(self, rule: Function) -> Function:
        """Set the rule and return it, so that this is a decorator as well.

        Parameters
        ----------
        rule : callable
            ``rule(*nondiff_arguments, primals, tangents)`` with two tuples, of the other arguments and
            their tangents (zeros for what is constant); returns the pair ``(result, tangent)``.
        """
        require_function("defjvp", rule)
        self.rule = rule
        return rule

    def defjvps(self, *rules: Function | None) -> None:
        """Set a rule for each argument, whose tangents are added.

        Parameters
        ----------
        *rules : callable or None
            For each argument ``rule(tangent, result, *arguments)``; None where it contributes nothing.
        """

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            result = self(*primals)
            terms = [r(t, result, *primals) for r, t in zip(rules, tangents, strict=True) if r is not None]
            return result, functools.reduce(lambda a, b: a + b, terms) if terms else None

        if self.nondiff_argnums:
            raise ArgumentError(
                "defjvps has no place for nondiff_argnums",
                operation=self.__name__,
                expected="defjvp",
                remedy="write one rule for all arguments with defjvp",
            )
        self.rule = rule


def stop_gradient(x: Any) -> Any:
    """Return a tree with the same values as constants: nothing is differentiated through them.

    Parameters
    ----------
    x : pytree
        Tensors, arrays and numbers; anything else comes back as it is.

    Returns
    -------
    pytree
        Of the same structure.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.grad(lambda x: x * eo.stop_gradient(x))(3.0))
    3.0
    """
    leaves, structure = flatten(x)
    return unflatten(structure, [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves])


def _positional(function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments by position."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentError(
            "a function with rules of its own has no keyword-only arguments",
            operation=function.__name__,
            expected="arguments that can be passed by position",
            found=", ".join(bound.kwargs),
            remedy="make them positional, or bind them with functools.partial",
        )
    return bound.args


def _up_to(structure: Any, tree: Any, count: int, operation: str, what: str) -> list[Any]:
    """Return the subtrees of `tree` in the places of a structure's leaves; None stands for all of them."""
    if tree is None:
        return [None] * count
    if structure is None:
        return [tree]
    try:
        return structure.flatten_up_to(tree)
    except (ValueError, TypeError) as error:
        raise ShapeError(
            f"{what} has another structure",
            operation=operation,
            expected=str(structure),
            found=str(error),
            remedy="return the same containers, with None where a tensor is zero",
        ) from None
