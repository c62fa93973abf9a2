"""`vmap`: a function of one example becomes a function of a batch of them, without a loop."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.batching import as_single, front
from everyo.core.copying import same_value
from everyo.core.dispatch import apply
from everyo.core.explaining import EXPLAINED
from everyo.core.functions import Transformed
from everyo.core.ownership import as_changeable
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Interpreter, Traced, batches
from everyo.errors import (
    ArgumentError,
    DTypeError,
    EveryOError,
    ShapeError,
    UnsupportedOperationError,
    describe,
)
from everyo.guidance.conversions import instead
from everyo.ops.axes import normalize_axis
from everyo.ops.creation import as_tensor
from everyo.ops.signatures import explained
from everyo.transforms.callables import require_function
from everyo.transforms.levels import lower, raised
from everyo.transforms.trees import as_axis, broadcast_prefix, flatten, returned, unflatten

RANDOMNESS = ("error", "different", "same")
_BY_EXAMPLE = "use eo.where instead of `if`, keep values as tensors, or loop over the batch in Python"


class Batched(Traced):
    """A value for each element of a batch; the batch is the first axis of the value below."""

    __slots__ = ()
    batched = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.below.shape[1:]

    def concrete(self, operation: str) -> Any:
        if operation == "print":
            return self.below
        raise UnsupportedOperationError(
            f"a value under vmap is a whole batch, which {operation}() cannot give as one",
            operation=operation,
            inputs=describe(self),
            expected="code that does not depend on a single example's value",
            found=f"a batch of {self.below.shape[0]}",
            remedy=_BY_EXAMPLE if operation == "bool" else instead(_BY_EXAMPLE),
        )


class BatchInterpreter(Interpreter):
    """Applies each operation to a whole batch by the primitive's batching rule."""

    name = "vmap"

    def __init__(self, size: int, randomness: str = "error") -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    def __enter__(self) -> BatchInterpreter:
        self._outside = batches.set((*batches.get(), self))
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        batches.reset(self._outside)
        super().__exit__(*exc)

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply the batching rule to the values below."""
        values, batched = [], []
        for x in inputs:
            data: Any = x.data if isinstance(x, Tensor) else None
            mine = data.__class__ is Batched and data.interpreter is self  # as `mine` does, without its call
            batched.append(mine)
            values.append(data.below if mine else lower(x))
        rule = primitive.batch
        if rule is None:
            raise UnsupportedOperationError(
                "the operation has no batching rule",
                operation=primitive.name,
                expected="an operation that vmap can apply to a batch",
                found=primitive.missing or "no rule",
                remedy="loop over the batch in Python and stack the results",
            )
        try:
            out = rule(primitive, values, batched, self.size, params)
        except UnsupportedOperationError:
            raise
        except (EveryOError, *EXPLAINED) as error:
            if primitive.family != "custom":  # whose errors are the user's own
                _explain_as_single(primitive, values, batched, self.size, params)
            raise error
        return tuple(map(self.batch, out)) if out.__class__ is tuple else self.batch(out)

    def batch(self, value: Any) -> Tensor:
        """Return a value whose first axis is the batch as a tensor of this level."""
        return wrap(Batched(self, value))


def _explain_as_single(
    primitive: Primitive, values: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> None:
    """Raise the error of one example alone, if it has one: it shows the shapes that the user knows."""
    try:
        as_single(functools.partial(_applied, primitive), values, batched, size, params)
    except EveryOError as error:
        raise error from None


def _applied(primitive: Primitive, *inputs: Any, **params: Any) -> Any:
    return apply(primitive, inputs, {**primitive.defaults, **params})


@explained
def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that applies `function` to each element along an axis of its arguments.

    There is no loop: each operation is done once, for the whole batch.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees of tensors.
    in_axes : int, None or a tuple of such or of trees, default 0
        The axis of each argument that is mapped over; None passes the argument whole. A tuple has one
        entry for each positional argument, and an entry may be a tree, whose axes hold for all that lies
        below them in the argument. Keyword arguments are mapped along axis 0.
    out_axes : int, None or a tree of such, default 0
        Where the results get the batch axis. None returns a result without one, which must not depend
        on the batch.
    axis_size : int, optional
        The size of the batch, needed only where no argument is mapped.
    chunk_size : int, optional
        Map this many elements at a time: less memory, the same result.
    randomness : {"error", "different", "same"}, default "error"
        What random functions, such as dropout, do inside `function`: refuse, draw for each element anew,
        or draw once for all elements (of a chunk).

    Returns
    -------
    callable
        Takes the arguments with the additional axis, returns the results with one.

    Raises
    ------
    ShapeError
        If the mapped axes differ in length, or an argument without axes is mapped.
    IndexingError
        If a mapped axis does not exist.
    ArgumentError
        If the trees of axes do not fit, or another parameter is out of its range.
    UnsupportedOperationError
        If `function` needs the value of a single element, as in ``if x > 0``, or a shape that depends
        on it, as in ``x[x > 0]``.

    Examples
    --------
    >>> import everyo as eo
    >>> dots = eo.vmap(lambda a, b: (a * b).sum(), in_axes=(0, None))
    >>> print(dots(eo.tensor([[1.0, 2.0], [3.0, 4.0]]), eo.tensor([1.0, 10.0])))
    [21. 43.]
    >>> slopes = eo.vmap(eo.grad(lambda x: x**3))
    >>> print(slopes(eo.tensor([1.0, 2.0])))
    [ 3. 12.]
    """
    chunk = as_chunk(chunk_size)
    given_size = _number("axis_size", axis_size, 0)
    if randomness not in RANDOMNESS:
        raise ArgumentError(
            "no such randomness", operation="vmap", expected=", ".join(RANDOMNESS), found=repr(randomness)
        )

    require_function("vmap", function)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        leaves: Sequence[Any] = args
        structure: Any = None  # of tensors alone
        if kwargs or not all(isinstance(arg, Tensor) for arg in args):
            leaves, structure = flatten((args, kwargs))
        axes = _argument_axes(args, kwargs, in_axes)
        fronts, size = _fronts(leaves, axes, given_size)

        def call(inner: Sequence[Any]) -> Any:
            if structure is None:
                return function(*inner)
            inner_args, inner_kwargs = unflatten(structure, inner)
            return function(*inner_args, **inner_kwargs)

        return _over(call, fronts, axes, size, out_axes, chunk, randomness)

    options = {"in_axes": in_axes, "out_axes": out_axes, "axis_size": axis_size, "chunk_size": chunk_size}
    return Transformed(transformed, function, vmap, randomness=randomness, **options)


def as_chunk(value: Any) -> int | None:
    """Return a `chunk_size`, an integer of at least 1 or None."""
    return _number("chunk_size", value, 1)


def mapped(function: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
    """Return ``vmap(function)(*tensors)``."""
    axes = (0,) * len(tensors)
    return _over(lambda inner: function(*inner), tensors, axes, tensors[0].shape[0], 0, None, "error")


def _over(
    call: Callable[[Sequence[Any]], Any],
    fronts: Sequence[Any],
    axes: Sequence[int | None],
    size: int,
    out_axes: Any,
    chunk: int | None,
    randomness: str,
) -> Any:
    """Call a function of the leaves on a batch of `size`, `chunk` elements at a time; return its tree."""

    def run(start: int, stop: int) -> tuple[list[Any], list[Any], Any]:
        with BatchInterpreter(stop - start, randomness) as interpreter:
            whole = stop - start == size
            inner = [
                _whole(x) if a is None else interpreter.batch(lower(x if whole else x[start:stop]))
                for x, a in zip(fronts, axes)
            ]
            tree = call(inner)
            results, structure = flatten(tree)
            outs = broadcast_prefix(out_axes, tree, "vmap", "out_axes")
            return [_result(interpreter, r, a) for r, a in zip(results, outs, strict=True)], outs, structure

    step = max(size, 1) if chunk is None else chunk
    parts = [run(i, min(i + step, size)) for i in range(0, max(size, 1), step)]
    _, outs, structure = parts[0]
    columns = zip(*[results for results, _, _ in parts], strict=True)
    return unflatten(structure, [_placed(column, a) for column, a in zip(columns, outs)])


def _number(name: str, value: Any, low: int) -> int | None:
    """Return a parameter that counts something."""
    if value is None:
        return None
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < low:
        raise ArgumentError(
            f"{name} is out of range",
            operation="vmap",
            expected=f"an integer of at least {low}, or None",
            found=repr(value),
        )
    return number


def _argument_axes(args: Sequence[Any], kwargs: dict[str, Any], in_axes: Any) -> list[int | None]:
    """Return the mapped axis, or None, for each leaf of the arguments."""
    entries = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    if isinstance(getattr(entries, "ndim", None), int):  # an integer of NumPy's, not a tree
        entries = as_axis(entries, "vmap", "in_axes")
    if not (entries is None or isinstance(entries, (int, tuple))):
        entries = (entries,)  # a tree for the one argument
    if isinstance(entries, tuple) and len(entries) != len(args):
        raise ArgumentError(
            "in_axes has another length than the positional arguments",
            operation="vmap",
            expected=f"{len(args)} {'entry' if len(args) == 1 else 'entries'}",
            found=f"{len(entries)}",
            remedy="give one for each positional argument; keyword arguments are mapped along axis 0",
        )
    if isinstance(entries, tuple):
        pairs = zip(entries, args)
    elif all(isinstance(arg, Tensor) for arg in args):
        pairs = zip((entries,) * len(args), args)
    else:
        pairs = zip((entries,), (tuple(args),))
    found: list[int | None] = []
    for entry, arg in pairs:
        if isinstance(arg, Tensor) and (entry is None or type(entry) is int):
            found.append(entry)
        else:
            found += broadcast_prefix(entry, arg, "vmap", "in_axes")
    return found + broadcast_prefix(0, kwargs, "vmap", "in_axes") if kwargs else found


def _mapped(leaf: Any) -> Tensor:
    try:
        return as_tensor(leaf)
    except DTypeError:
        raise DTypeError(
            "an argument that is mapped over is no tensor",
            operation="vmap",
            expected="tensors, or None in in_axes for what is passed whole",
            found=type(leaf).__name__,
            remedy="pass it whole: None in its place in in_axes, or functools.partial for a keyword argument",
        ) from None


def _whole(leaf: Any) -> Any:
    """Return what is passed whole so that the function cannot change the caller's tensor in place."""
    return as_changeable(same_value(leaf), leaf) if isinstance(leaf, Tensor) else leaf


def _mapped_axis(x: Tensor, axis: int) -> int:
    if not x.shape:
        raise ShapeError(
            "an argument without axes is mapped",
            operation="vmap",
            inputs=describe(x),
            expected=f"an axis {axis}",
            found="shape ()",
            remedy="pass it whole: None in its place in in_axes, or functools.partial for a keyword argument",
        )
    return normalize_axis(axis, x.ndim, "vmap") if axis else 0


def _fronts(
    leaves: Sequence[Any], axes: Sequence[int | None], axis_size: int | None
) -> tuple[list[Any], int]:
    """Return the arguments' leaves, those that are mapped with that axis in front, and the axis' length."""
    tensors, fronts = [], []
    sizes = set() if axis_size is None else {axis_size}
    for x, axis in zip(leaves, axes):
        if axis is not None:
            x = _mapped(x)
            axis = _mapped_axis(x, axis)
            sizes.add(x.shape[axis])
        tensors.append(x)
        fronts.append(x if axis is None else front(x, axis))
    if len(sizes) != 1:
        raise ShapeError(
            "the mapped axes differ in length" if sizes else "no argument is mapped",
            operation="vmap",
            inputs=describe(*tensors),
            expected="one size" if sizes else "an argument with an axis in in_axes, or axis_size",
            found=", ".join(map(str, sorted(sizes))) or "in_axes of None",
            remedy="pass what has no batch whole: None in its place in in_axes"
            if sizes
            else "map an argument, or say axis_size=n",
        )
    return fronts, sizes.pop()


def _result(interpreter: BatchInterpreter, result: Any, axis: int | None) -> Tensor:
    """Return a result with the batch as its first axis; what does not depend on the batch is repeated."""
    result = interpreter.released(result)
    if interpreter.mine(result):
        if axis is None:
            raise ArgumentError(
                "a result depends on the batch and so needs an axis for it",
                operation="vmap",
                inputs=describe(result),
                expected="an integer in out_axes",
                found="None",
                remedy="write 0 in its place in out_axes",
            )
        return raised(result.data.below)
    value = returned(result, "vmap")
    return value if axis is None else op.broadcast_to(value, shape=(interpreter.size, *value.shape))


def _placed(parts: Sequence[Tensor], axis: int | None) -> Tensor:
    """Return the chunks of a result as one, with the batch axis where it belongs."""
    if axis is None:
        return parts[0]
    x = parts[0] if len(parts) == 1 else op.concat(*parts, axis=0)
    if axis == 0:
        return x
    position = normalize_axis(axis, x.ndim, "vmap")
    order = (*range(1, position + 1), 0, *range(position + 1, x.ndim))
    return op.transpose(x, axes=order)
