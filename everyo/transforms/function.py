"""`eo.autograd.Function`: an operation as a class, as PyTorch users write it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from everyo.core.device import backend_of
from everyo.core.tensor import Tensor
from everyo.errors import ArgumentError, DTypeError, ShapeError, UnsupportedOperationError, describe
from everyo.ops.axes import normalize_axis
from everyo.ops.creation import as_tensor
from everyo.transforms.custom_calls import call
from everyo.transforms.custom_rules import Rules
from everyo.transforms.custom_values import MaybeTensors, Tensors, carries, detached, needs_rules
from everyo.transforms.levels import lower, raised
from everyo.transforms.trees import as_axis, flatten

F = TypeVar("F", bound=Callable[..., Any])
_OWN = ("_saved", "_constant", "_materialize", "needs_input_grad")


class Context:
    """The ``ctx`` that carries what `forward` keeps to `backward`.

    Attributes set on it are kept, too. A tensor among them or in `save_for_backward` that is an input or a
    result is linked to it again when a derivative of higher order is taken.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument of ``apply`` whether it needs a gradient.
    """

    def __init__(self, needs: Sequence[bool]) -> None:
        self._saved: tuple[Any, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self.needs_input_grad = tuple(needs)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        return self._saved

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`, as `saved_tensors`."""
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`; the same as `save_for_backward`."""
        self._saved = tensors

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """Declare results of `forward` to be constants."""
        self._constant = results

    def set_materialize_grads(self, value: bool) -> None:
        """Decide whether `backward` gets zeros (the default) or None for results that do not matter."""
        self._materialize = bool(value)

    def mark_dirty(self, *tensors: Any) -> None:
        """Not supported: tensors have value semantics, so `forward` returns new ones."""
        raise UnsupportedOperationError(
            "a function cannot change its inputs",
            operation="mark_dirty",
            expected="results that are new tensors",
            found="an input to be changed in place",
            remedy="return the new value",
        )


class _Application(Rules):
    """One call of a Function."""

    def __init__(self, kind: type[Function], args: Sequence[Any]) -> None:
        super().__init__()
        self.kind = self.source = kind
        self.name = kind.__name__
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.tensors = [a for a in args if isinstance(a, Tensor)]
        self.args = self.constants = [None if isinstance(a, Tensor) else a for a in args]
        self.needs = [needs_rules([a]) for a in args]
        self.once = getattr(kind.backward, "once_differentiable", False)
        self.several = False
        self.frame: list[Any] = []  # the results that are no tensors, None for those that are
        self.constant: set[int] = set()
        self.has_backward = kind.backward is not Function.backward
        self.has_forward_rule = kind.jvp is not Function.jvp
        self.has_batch = kind.vmap is not Function.vmap

    def filled(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the arguments of ``apply`` around new tensors."""
        args = list(self.args)
        for i, x in zip(self.places, tensors, strict=True):
            args[i] = x
        return args

    def returned(self, results: Any) -> list[Any]:
        """Return what `forward` has returned as a list, arrays as tensors, and remember what is no tensor."""
        self.several = isinstance(results, (tuple, list))
        listed = [self._result(x) for x in (results if self.several else [results])]
        self.frame = [None if isinstance(x, Tensor) else x for x in listed]
        self.holes = [isinstance(x, Tensor) for x in listed]
        return listed

    def _result(self, x: Any) -> Any:
        """Return one result; raise for a container, whose tensors would be constants."""
        if isinstance(x, Tensor):
            return x
        if backend_of(x) is not None:
            return as_tensor(x) if x.dtype.kind in "biufc" else x
        inner = [leaf for leaf in flatten(x)[0] if isinstance(leaf, Tensor) or backend_of(leaf) is not None]
        if inner:
            raise UnsupportedOperationError(
                f"forward returned a {type(x).__name__} with tensors",
                operation=self.name,
                inputs=describe(*inner),
                expected="a tensor, or a tuple of tensors",
                found=type(x).__name__,
                remedy="return a flat tuple, or use eo.custom_vjp, which takes and returns trees",
            )
        return x

    def result(self, tensors: Sequence[Any]) -> Any:
        """Return what ``apply`` returns, around new tensors."""
        values = iter(tensors)
        listed = [next(values) if hole else x for hole, x in zip(self.holes, self.frame, strict=True)]
        return tuple(listed) if self.several else listed[0]

    def evaluate(self, inputs: Sequence[Any]) -> tuple[Any, Context]:
        """Call the user's forward function."""
        ctx = Context(self.needs)
        args = self.filled(inputs)
        if self.kind.setup_context is Function.setup_context:
            return self.kind.forward(ctx, *args), ctx
        results = self.kind.forward(*args)
        self.kind.setup_context(ctx, tuple(args), results)
        return results, ctx

    def run(self, inputs: Tensors) -> tuple[Tensors, Any]:
        results, ctx = self.evaluate(inputs)
        outs = [x for x in self.returned(results) if isinstance(x, Tensor)]
        self.constant = {i for i, x in enumerate(outs) if any(x is c for c in ctx._constant)}
        self.materialize = ctx._materialize
        attributes = {k: v for k, v in vars(ctx).items() if k not in _OWN}
        return outs, (ctx._saved, attributes)

    def _context(self, kept: Any, needs: tuple[bool, ...]) -> Context:
        wanted = [False] * len(self.args)
        for i, need in zip(self.places, needs, strict=True):
            wanted[i] = need
        ctx = Context(wanted)
        ctx._saved, attributes = kept
        vars(ctx).update(attributes)
        return ctx

    def backward(self, kept: Any, gs: MaybeTensors, needs: tuple[bool, ...]) -> MaybeTensors:
        values = iter(gs)
        listed = [next(values) if hole else None for hole in self.holes]
        returned = self.kind.backward(self._context(kept, needs), *listed)
        found = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        while len(found) > len(self.args) and found[-1] is None:
            found.pop()
        if len(found) != len(self.args):
            raise self._miscounted("backward", "gradient", "argument", len(self.args), len(found))
        for i, value in enumerate(found):
            if value is not None and i not in self.places:
                raise DTypeError(
                    f"backward returned a gradient for argument {i}, which is no tensor",
                    operation=self.name,
                    expected="None",
                    found=type(value).__name__,
                    remedy="return None in the place of that argument",
                )
        return [found[i] for i in self.places]

    def forward_rule(self, kept: Any, inputs: Tensors, tangents: MaybeTensors) -> MaybeTensors:
        ctx = self._context(kept, tuple(t is not None for t in tangents))
        moving = dict(zip(self.places, tangents, strict=True))
        returned = self.kind.jvp(ctx, *(moving.get(i) for i in range(len(self.args))))
        listed = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if len(listed) != len(self.holes):
            raise self._miscounted("jvp", "tangent", "result", len(self.holes), len(listed))
        return [t for t, hole in zip(listed, self.holes, strict=True) if hole]

    def user_batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int) -> tuple[Any, ...]:
        """Apply the class's own `vmap`, which says where its results have the batch."""
        dims: list[int | None] = [None] * len(self.args)
        for i, b in zip(self.places, batched, strict=True):
            dims[i] = 0 if b else None
        pair = self.kind.vmap(BatchInfo(size), tuple(dims), *self.filled([raised(x) for x in inputs]))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ArgumentError(
                "vmap must return a pair",
                operation=self.name,
                expected="(results, out_dims)",
                found=type(pair).__name__,
                remedy="return (results, 0) where the batch is the first axis of each result",
            )
        found, out_dims = pair
        listed = self.returned(found)
        axes = list(out_dims) if isinstance(out_dims, (tuple, list)) else [out_dims] * len(listed)
        if len(axes) != len(listed):
            raise ShapeError(
                "vmap returned another number of axes than results",
                operation=self.name,
                expected=f"{len(listed)}",
                found=f"{len(axes)}",
                remedy="return one axis, or None, for each result",
            )
        return tuple(
            lower(self._batch_first(x, axis, size))
            for x, axis in zip(listed, axes, strict=True)
            if isinstance(x, Tensor)
        )

    def _batch_first(self, x: Tensor, axis: int | None, size: int) -> Tensor:
        """Return a result of the user's `vmap` with the batch as its first axis."""
        if axis is None:
            return x.broadcast_to((size, *x.shape))
        position = normalize_axis(as_axis(axis, self.name, "out_dims"), x.ndim, self.name)
        if x.shape[position] != size:
            raise ShapeError(
                "vmap returned a batch of another size",
                operation=self.name,
                inputs=describe(x),
                expected=f"{size} elements along axis {axis}",
                found=str(x.shape[position]),
                remedy="return the batch along the axis in out_dims; None there stands for no batch",
            )
        return x.moveaxis(position, 0) if position else x


class BatchInfo:
    """What a Function's own `vmap` is told: ``batch_size``."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size


class Function:
    """An operation with a backward rule of its own: subclass it, and call ``apply``.

    Write two static methods. ``forward(ctx, *args)`` computes the results (tensor, array or tuple) and keeps
    what it needs with ``ctx.save_for_backward(...)``; it may use NumPy. ``backward(ctx, *gradients)`` gets
    the gradient of each result and returns one, or None, for each argument. For complex values gradients
    are ``dL/dx + i dL/dy``.

    Optional static methods: ``jvp(ctx, *tangents)`` for forward mode, which otherwise transposes
    `backward` and raises where that is not linear in the gradients; ``vmap(info, in_dims, *args)``, which
    returns ``(results, out_dims)``, where mapping `forward` and `backward` would not do;
    ``setup_context(ctx, inputs, output)``, with which `forward` is written without ``ctx``.

    Derivatives of higher order differentiate `backward`. They go through inputs and results that were
    saved; for another saved value, `forward` is run again and differentiated. A `backward` that computes in
    NumPy, or is marked `once_differentiable`, raises there.

    Examples
    --------
    >>> import everyo as eo
    >>> class Cube(eo.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * gradient
    >>> x = eo.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> print(x.grad, eo.grad(eo.grad(Cube.apply))(2.0))
    12.0 12.0
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedOperationError(
            "the class is not called: it has no objects",
            operation=type(self).__name__,
            expected=f"{type(self).__name__}.apply(...)",
            found=f"{type(self).__name__}(...)",
            remedy=f"write {type(self).__name__}.apply(x)",
        )

    @staticmethod
    def forward(*args: Any) -> Any:
        """Compute the results; called as ``forward(ctx, *args)``."""
        raise UnsupportedOperationError(
            "the class has no forward",
            operation="Function",
            expected="a static method forward(ctx, *args)",
            remedy="define it in the subclass, and backward beside it",
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep on `ctx` what `backward` needs, where `forward` does not take it."""

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the gradient of each argument."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangent of each result."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return the results for a batch, and the axis of the batch in each."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call the operation.

        Parameters
        ----------
        *args : tensors and others
            Passed to `forward`. Gradients flow to the tensors among them, not to tensors in containers.

        Returns
        -------
        Tensor or tuple
            What `forward` returns.
        """
        rules = _Application(cls, args)
        tensors, rules.tensors = rules.tensors, []  # what the backward pass needs is kept elsewhere
        batched = rules.has_batch and any(x.level for x in tensors)
        if not (needs_rules(tensors) or batched):
            if any(map(carries, tensors)):  # in a `no_grad` block, where `forward` may compute in NumPy
                tensors = detached(tensors)
            listed = rules.returned(rules.evaluate(tensors)[0])
            return tuple(listed) if rules.several else listed[0]
        outs = call(rules, tensors)
        return rules.result([x.detach() if i in rules.constant else x for i, x in enumerate(outs)])


def once_differentiable(backward: F) -> F:
    """Mark a `Function`'s backward as one that cannot be differentiated: it gets detached tensors.

    A second derivative through it raises UnsupportedOperationError.

    Parameters
    ----------
    backward : callable
        The static method.

    Returns
    -------
    callable
        The marked method.

    Examples
    --------
    >>> import everyo as eo
    >>> import numpy as np
    >>> class Sine(eo.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return eo.sin(x)
    ...
    ...     @staticmethod
    ...     @eo.autograd.once_differentiable
    ...     def backward(ctx, gradient):
    ...         return gradient.numpy() * np.cos(ctx.saved_tensors[0].numpy())
    >>> print(eo.grad(Sine.apply)(0.0))
    1.0
    """

    @functools.wraps(backward)
    def marked(*args: Any) -> Any:
        return backward(*args)

    marked.once_differentiable = True  # type: ignore[attr-defined]
    return marked  # type: ignore[return-value]
