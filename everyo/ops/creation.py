"""Creation: tensors from Python data, from arrays and from nothing."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from everyo.core.batching import unchanged
from everyo.core.device import backend_for, backend_of
from everyo.core.dtypes import as_dtype, get_default_dtype, in_double_precision, refuse_complex
from everyo.core.operands import array_from, is_typed, stack_lists_by, strongest, tensors_in
from everyo.core.ownership import as_changeable, changeable
from everyo.core.registry import op
from everyo.core.samples import sample
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import is_number, staged, staging
from everyo.errors import (
    ArgumentError,
    DTypeError,
    EveryOError,
    GraphStateError,
    ShapeError,
    describe,
    entered,
)
from everyo.ops.axes import as_flag, as_items, normalize_shape
from everyo.ops.docstrings import LIKE, SHAPE, VALUE, converted, created, described
from everyo.ops.families import primitive
from everyo.ops.severing import is_followed, severed
from everyo.ops.signatures import explained

__all__ = [
    "tensor", "asarray", "from_numpy",
    "empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like",
]  # fmt: skip


@converted
def tensor(data: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new leaf tensor with a copy of `data`; its gradient goes no further.

    Parameters
    ----------
    data : tensor, array, number or nested lists
        The elements. Python ints become int64, floats the default float dtype; arrays keep their dtype.
    requires_grad : bool, default False
        Whether operations on the tensor are recorded; not for integers (DTypeError).

    Returns
    -------
    Tensor
        A leaf that shares no memory with `data`.

    Raises
    ------
    GraphStateError
        If `data` is, or contains, a tensor that requires grad while recording is on: a leaf would lose
        the path to it. `asarray` and `stack` keep the path.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.tensor([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], dtype=float32, shape=(2,), requires_grad=True)
    """
    tracked = _tracked(data)
    if tracked is not None:
        raise _pathless(tracked)
    if staging.get() is not None and next(tensors_in(data), None) is not None:  # read anew at each call
        return changeable(op.copy(severed(asarray(data, dtype=dtype, device=device), _pathless)))
    return made(_array(data, dtype, device, True, "tensor"), requires_grad, "tensor")


def _tracked(data: Any) -> Tensor | None:
    """Return a tensor in nested lists whose derivative a copy of its elements would lose."""
    return next(filter(is_followed, tensors_in(data)), None)


def _pathless(x: Tensor) -> GraphStateError:
    return GraphStateError(
        "a new leaf has no path to the tensors it is made of",
        operation="tensor",
        inputs=describe(x),
        expected="data without a graph",
        found="a tensor that requires grad",
        remedy="use eo.asarray(...) or eo.stack([...]), which stay differentiable, or x.detach()",
    )


def _stacked(data: Any) -> Any:
    """Return nested lists that contain tensors as one tensor; anything else as it is."""
    if not isinstance(data, (list, tuple)) or next(tensors_in(data), None) is None:
        return data
    from everyo.ops.joining import stack

    items = [_stacked(item) for item in data]
    tracer = staging.get()
    if tracer is not None and all(map(is_python_data, items)):
        return tracer.listed(items)
    return stack(items)


stack_lists_by(_stacked)


def _array(data: Any, dtype: Any, device: str | None, copy: bool | None, operation: str) -> Any:
    """Return data as a raw array on `device`."""
    data = _stacked(data)
    if isinstance(data, Tensor):
        device = data.device if device is None else device
        data = data.data
    backend, place = backend_for(device)
    source = backend_of(data)
    wanted = None if dtype is None else as_dtype(dtype)
    if source is None:
        data = array_from(data, backend, place, operation, wanted)
    elif source is not backend:
        data = source.to_numpy(data)
    if wanted is not None and source is not None:
        refuse_complex(data.dtype, wanted, operation)
    try:
        if copy is False and source is None:
            raise ValueError("Python data have no memory to share")
        return backend.asarray(data, wanted, place, copy)
    except ValueError as error:
        raise ArgumentError(
            "the conversion needs a copy",
            operation=operation,
            inputs=describe(data),
            expected="an array of the wanted dtype and device",
            found=f"copy={copy}: {error}",
            remedy="leave copy out",
        ) from error
    except TypeError as error:
        raise DTypeError(
            "the elements are not numeric",
            operation=operation,
            expected="booleans, integers, floats or complex numbers",
            found=str(error),
            remedy="convert them first, for example with numpy.asarray(values, dtype=float)",
        ) from error


@converted
def asarray(
    data: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """Return `data` as a tensor, sharing memory where that is possible and keeping the graph.

    A tensor of the right dtype comes back as it is. Nested lists that contain tensors are stacked, so that
    gradients flow to these.

    Parameters
    ----------
    data : tensor, array, number or nested lists
        The elements.
    copy : bool, optional
        True always copies, False never does, None copies if needed.

    Returns
    -------
    Tensor
        `data` itself where there is nothing to do.

    Raises
    ------
    ShapeError
        If tensors in a list differ in shape.
    ArgumentError, ValueError
        If `copy` is False and a copy is needed: of a tensor the one, of an array the other.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor(3.0, requires_grad=True)
    >>> eo.asarray([x, x * x, 1.0]).sum().backward()
    >>> print(x.grad)
    7.0
    """
    data, copy = _stacked(data), None if copy is None else as_flag(copy, "copy", "asarray")
    if not isinstance(data, Tensor):
        try:
            result = fresh(_array(data, dtype, device, copy, "asarray"))
            return as_changeable(result, data)
        except EveryOError as error:  # operands of other functions come here, too
            if error.operation != "asarray":
                raise
            raise error.renamed(entered("asarray")) from error.__cause__
    if is_number(data):
        data = data.data.interpreter.strong(data, dtype)
    result = data if dtype is None and device is None else data.to(device=device, dtype=dtype)
    if result is not data and copy is False:
        raise ArgumentError(
            "the conversion needs a copy",
            operation="asarray",
            inputs=describe(data),
            expected="a tensor of the wanted dtype and device",
            found="copy=False",
            remedy="leave copy out",
        )
    return op.copy(result) if copy and result is data else result


def as_tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """Return an operand of a public function as a tensor, on the device of `like`; tensors pass untouched."""
    return (
        value if isinstance(value, Tensor) else asarray(value, device=None if like is None else like.device)
    )


def as_tensors(values: Iterable[Any], operation: str, precision: Any = None) -> list[Tensor]:
    """Return the operands of one operation as tensors; Python data take the others' dtype and device.

    Beside a `precision`, a dtype, they keep the digits that it has.
    """
    values = as_items(values, "what is given", operation)
    if {*map(type, values)} == {Tensor} and not any(map(is_number, values)):
        return values
    strong = {i: as_tensor(v) for i, v in enumerate(values) if not is_python_data(v)}
    met = list(strong.values())
    if values and not met:
        with in_double_precision() if precision is not None else nullcontext():
            met = [strongest(map(asarray, values))]
    return [strong[i] if i in strong else weak(v, met, operation, precision) for i, v in enumerate(values)]


def weak(value: Any, met: Sequence[Tensor], operation: str, precision: Any = None) -> Tensor:
    """Return an operand as a tensor; Python data take the dtype and device of the tensors that they meet."""
    value = _stacked(value)
    dtypes = [t.dtype for t in met] + ([] if precision is None else [precision])
    if is_number(value):
        return value.data.interpreter.meeting(value, dtypes)
    if not is_python_data(value):
        return as_tensor(value, met[0])
    return fresh(array_from(value, met[0].backend, met[0].device, operation, met=dtypes))


def is_python_data(value: Any) -> bool:
    """Whether an operand is as weak as Python's numbers: one of them, or lists of nothing else."""
    if isinstance(value, Tensor):
        return is_number(value)
    return backend_of(value) is None and all(map(is_number, tensors_in(value))) and not is_typed(value)


@described(
    Parameters="array : numpy.ndarray\n    Of a numeric dtype.",
    Returns="Tensor\n    A leaf of its shape and dtype.",
    Raises="DTypeError\n    If the elements are not numeric.",
)
def from_numpy(array: Any) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array.

    Overwriting the array between a forward and a backward pass makes gradients wrong; under
    `detect_anomaly` it raises.

    Examples
    --------
    >>> import everyo as eo
    >>> import numpy as np
    >>> a = np.zeros(2)
    >>> t = eo.from_numpy(a)
    >>> a[0] = 5.0
    >>> print(t)
    [5. 0.]
    """
    return asarray(array)


def made(array: Any, requires_grad: bool, operation: str) -> Tensor:
    """Return an array as a new leaf."""
    if as_flag(requires_grad, "requires_grad", operation):
        with staged(None):  # a leaf has an array, also where a function is compiled
            return changeable(wrap(array).requires_grad_())
    return changeable(fresh(array))


def fresh(array: Any) -> Tensor:
    """Return an array as a tensor; where a function is compiled, as a constant of its program."""
    tracer = staging.get()
    return wrap(array) if tracer is None else tracer.symbol(tracer.constant(array))


def _filled(
    name: str,
    shape: Any,
    dtype: Any,
    device: str | None,
    requires_grad: bool,
    *arguments: Any,
    **options: Any,
) -> Tensor:
    """Return what the backend's function `name` makes of a shape."""
    backend, place = backend_for(device)
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    array = getattr(backend.xp, name)(normalize_shape(shape, name), *arguments, dtype=wanted, **options)
    return made(backend.asarray(array, None, place), requires_grad, name)


@explained
@created(SHAPE, dtype="the default float dtype")
def empty(
    shape: int | Sequence[int], *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of arbitrary elements, to be overwritten, at which gradients end.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.empty((2, 3)).shape
    (2, 3)
    """
    return _filled("empty", shape, dtype, device, requires_grad)


@explained
@created(SHAPE, dtype="the default float dtype")
def zeros(
    shape: int | Sequence[int], *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of zeros, at which gradients end.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.zeros(2))
    [0. 0.]
    """
    return _filled("zeros", shape, dtype, device, requires_grad)


@explained
@created(SHAPE, dtype="the default float dtype")
def ones(
    shape: int | Sequence[int], *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of ones, at which gradients end.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ones(3))
    [1. 1. 1.]
    """
    return _filled("ones", shape, dtype, device, requires_grad)


@explained
@created(SHAPE, VALUE, dtype="that of the value")
def full(
    shape: int | Sequence[int],
    fill_value: Any,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with one value; a tensor that requires grad gets the sum of the gradient.

    Without `dtype` the value decides: an int makes int64, a float the default float dtype.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.full((2,), 7.0))
    [7. 7.]
    """
    sizes = normalize_shape(shape, "full")
    if isinstance(fill_value, Tensor) and (staging.get() is not None or _tracked(fill_value) is not None):
        value = asarray(fill_value, dtype=dtype, device=device)
        _require_number(value)
        return changeable(op.copy(op.broadcast_to(value, shape=sizes)))
    value = _array(fill_value, dtype, device, None, "full")
    _require_number(value)
    return _filled("full", sizes, value.dtype, device, requires_grad, value)


def _require_number(value: Any) -> None:
    if value.shape:
        raise ShapeError(
            "the value to fill with must be one number",
            operation="full",
            expected="shape ()",
            found=f"shape {tuple(value.shape)}",
            remedy="use eo.broadcast_to(value, shape)",
        )


def _any_shape() -> list[Any]:
    return [sample((2, 3)), sample(())]


@primitive(None, None, missing="its result is constant", samples=_any_shape, batch=unchanged, constant=True)
def _zeros_like(xp: Any, x: Any) -> Any:
    return xp.zeros_like(x)


@primitive(None, None, missing="its result is constant", samples=_any_shape, batch=unchanged, constant=True)
def _ones_like(xp: Any, x: Any) -> Any:
    return xp.ones_like(x)


def _alike(x: Any, dtype: Any, device: str | None) -> dict[str, Any]:
    """Return shape, dtype and device of what a ``*_like`` function makes."""
    x = as_tensor(x)
    device = x.device if device is None else device
    return {"shape": tuple(x.shape), "dtype": x.dtype if dtype is None else dtype, "device": device}


@created(LIKE, dtype="that of `x`", device="that of `x`")
@explained
def empty_like(
    x: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of arbitrary elements of the shape, dtype and device of `x`; no gradient flows to `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.empty_like(eo.ones((2, 3))).shape
    (2, 3)
    """
    return empty(**_alike(x, dtype, device), requires_grad=requires_grad)


@created(LIKE, dtype="that of `x`", device="that of `x`")
@explained
def zeros_like(
    x: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return zeros of the shape, dtype and device of `x`; no gradient flows to `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.zeros_like(eo.tensor([1, 2])))
    [0 0]
    """
    return zeros(**_alike(x, dtype, device), requires_grad=requires_grad)


@created(LIKE, dtype="that of `x`", device="that of `x`")
@explained
def ones_like(x: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Return ones of the shape, dtype and device of `x`; no gradient flows to `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ones_like(eo.tensor([1.5, 2.5])))
    [1. 1.]
    """
    return ones(**_alike(x, dtype, device), requires_grad=requires_grad)


@created(LIKE, VALUE, dtype="that of `x`", device="that of `x`")
@explained
def full_like(
    x: Any, fill_value: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return one value in the shape, dtype and device of `x`; no gradient flows to `x`.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.full_like(eo.ones(2), 7))
    [7. 7.]
    """
    return full(fill_value=fill_value, **_alike(x, dtype, device), requires_grad=requires_grad)


def number(value: Any, operation: str, name: str = "this parameter") -> Any:
    """Return a parameter that must be a plain number; DTypeError or GraphStateError for what is none."""
    if isinstance(value, Tensor):
        if value.level:
            value.data.concrete(operation)  # a batch is no number, and says so
        if _tracked(value) is not None:
            raise GraphStateError(
                f"{name} is a plain number, so a gradient could not flow through it",
                operation=operation,
                inputs=describe(value),
                expected="a Python number",
                found="a tensor that requires grad",
                remedy="pass x.item(), or write the expression with tensor operations",
            )
        return value.item()
    if getattr(value, "shape", None) == ():  # an array scalar
        value = value.item()
    if not isinstance(value, numbers.Number):
        raise DTypeError(
            f"{name} must be a number",
            operation=operation,
            expected="a Python number",
            found=repr(value),
            remedy="convert it: float(x) or x.item()",
        )
    return value


def real_number(value: Any, operation: str, name: str) -> float:
    """Return a parameter that must be a real number, as a float; otherwise as `number`."""
    plain = number(value, operation, name)
    if isinstance(plain, complex):
        raise DTypeError(
            f"{name} must be real",
            operation=operation,
            expected="a real number",
            found=repr(value),
            remedy="use its real part, or a complex dtype",
        )
    try:
        return float(plain)
    except OverflowError:
        raise ArgumentError(
            f"{name} is too large",
            operation=operation,
            expected="a number that a float can hold",
            found=str(plain),
            remedy="pass a smaller one, or math.inf",
        ) from None
