"""Attaches the operators and array methods to `Tensor`, from tables of the operations they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everyo import ops
from everyo.core.device import backend_of
from everyo.core.dispatch import binary, unary
from everyo.core.operands import WEAK
from everyo.core.ownership import is_changeable
from everyo.core.registry import op
from everyo.core.tensor import Tensor
from everyo.core.traced import is_number
from everyo.errors import ArgumentError, DTypeError, ShapeError, describe
from everyo.guidance import Elsewhere, refuse_setting
from everyo.ops.element_order import checked_layout, ravel_in_order, reshape_in_order
from everyo.ops.indexing import getitem, setitem
from everyo.ops.signatures import explained

BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "matmul": "matmul",
}  # fmt: skip
COMPARISONS = {
    "eq": "equal", "ne": "not_equal",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
UNARY = {"neg": "negative", "abs": "abs", "pos": "positive", "invert": "bitwise_invert"}

# Public functions that are also methods, under the same name and with the tensor as first argument.
METHODS = (
    "sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "count_nonzero",
    "cumsum", "cumprod", "diff", "logsumexp", "softmax", "log_softmax", "argsort", "topk", "nonzero",
    "abs", "sign", "square", "sqrt", "reciprocal", "rsqrt", "exp", "exp2", "expm1", "log", "log1p", "log2",
    "log10", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
    "arctanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "sigmoid", "relu",
    "ceil", "floor", "round", "trunc", "clip", "maximum", "minimum", "power",
    "isfinite", "isinf", "isnan", "conj", "conjugate",
    "dot", "matmul", "outer",
    "squeeze", "expand_dims", "moveaxis", "swapaxes", "broadcast_to",
    "flip", "roll", "repeat", "tile", "tril", "triu", "diag", "diagonal", "trace", "split", "unstack",
    "take", "take_along_axis", "put_along_axis", "gather", "scatter_add", "index_add",
    "astype", "to", "clone",
)  # fmt: skip
# Names that `everyo.guidance` explains.
ELSEWHERE = (
    "unsqueeze", "view", "view_as", "reshape_as", "unflatten", "permute", "movedim", "swapdims", "t", "H",
    "mH", "adjoint", "contiguous", "is_contiguous", "numel", "nelement", "element_size", "dim",
    "ndimension", "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "cfloat",
    "cdouble", "type", "type_as", "is_floating_point", "is_complex", "cpu", "cuda", "is_cuda", "get_device",
    "pin_memory", "block_until_ready", "grad_fn", "flat", "tobytes", "expand", "expand_as",
    "repeat_interleave", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "add", "sub",
    "mul", "div", "pow", "neg", "eq", "ne", "lt", "le", "gt", "ge", "mm", "bmm", "mv", "addmm", "addcmul",
    "addcdiv", "norm", "dist", "inverse", "det", "logdet", "clamp", "clamp_min", "clamp_max", "unbind",
    "chunk", "narrow", "equal", "lgamma", "erfinv", "digamma", "logit", "where", "index_put", "index_put_",
    "masked_fill_", "scatter_", "scatter_add_", "index_add_", "add_", "sub_", "mul_", "div_", "pow_",
    "addcmul_", "addcdiv_", "lerp_", "clamp_", "exp_", "sqrt_", "relu_", "zero_", "fill_", "copy_",
    "normal_", "uniform_", "t_", "unsqueeze_", "squeeze_", "detach_", "at", "sort", "fill", "put", "resize",
    "baddbmm", "ger", "pinverse", "polygamma", "take_along_dim", "tensor_split", "kthvalue", "aminmax",
    "histc", "cholesky", "eig", "lstsq", "matrix_exp", "matrix_power", "qr", "slogdet", "solve", "svd",
    "allclose", "amax", "amin", "angle", "arctan2", "argpartition", "argwhere", "atan2", "average",
    "bincount", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "choose", "copysign",
    "cov", "cross", "cummax", "cummin", "divide", "fliplr", "flipud", "floor_divide", "fmax", "fmin",
    "fmod", "greater", "greater_equal", "heaviside", "hypot", "index_select", "inner", "isclose", "kron",
    "lerp", "less", "less_equal", "logaddexp", "logcumsumexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "masked_fill", "masked_select", "median", "multiply", "nan_to_num", "nanmean", "nansum",
    "negative", "not_equal", "partition", "positive", "ptp", "quantile", "remainder", "rot90", "scatter",
    "searchsorted", "signbit", "subtract", "unfold", "unique", "vdot",
)  # fmt: skip
PROPERTIES = {"T": "transpose", "mT": "matrix_transpose", "real": "real", "imag": "imag"}


def _foreign(value: Any) -> bool:
    """Whether an operator leaves `value` on its other side to that value's own class."""
    known = isinstance(value, (Tensor, list, tuple, int, float, complex))
    return not known and backend_of(value) is None


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        if other.__class__ not in WEAK and _foreign(other):
            return NotImplemented
        return function(other, self)

    return method


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        result = function(self, other)
        if result is NotImplemented or not (self.shape or is_changeable(self)):
            return result
        if result.shape != self.shape or result.dtype != self.dtype:
            result = fitted(result, self)
        self.assign(result)
        return self

    return method


def fitted(result: Any, target: Tensor) -> Any:
    """Return the result of an in-place statement in the dtype of its target, as NumPy converts it."""
    from everyo.guidance.updates import unfitting

    if tuple(result.shape) != tuple(target.shape):
        raise ShapeError(
            "an in-place statement cannot change the shape",
            operation="in-place assignment",
            inputs=describe(target),
            expected=f"shape {tuple(target.shape)}",
            found=f"shape {tuple(result.shape)}",
            remedy=unfitting(target, f"an update of shape {tuple(target.shape)}, as by v.sum(axis)"),
        )
    if not target.backend.xp.can_cast(result.dtype, target.dtype, "same_kind"):
        raise DTypeError(
            "an in-place statement cannot change the dtype",
            operation="in-place assignment",
            inputs=describe(target),
            expected=str(target.dtype),
            found=str(result.dtype),
            remedy=unfitting(target, "a real update, as by v.real"),
        )
    return op.astype(result, dtype=target.dtype)


def _reshape(self: Tensor, /, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    """Return the elements in another shape, given as one tuple or as separate sizes; see `everyo.reshape`.

    Parameters
    ----------
    *shape : int, or one sequence of int
        The new shape; one size may be -1, which stands for what remains.
    order : {"C", "F"}, default "C"
        Whether the last or the first axis counts fastest, in what is read and in what is written.
    copy : bool, optional
        True puts the elements into memory of their own, False refuses to.

    Returns
    -------
    Tensor
        Of that shape and the same dtype; the gradient gets the first shape again.

    Raises
    ------
    ShapeError
        If the elements do not fill the shape.
    DTypeError
        If a size is no integer.
    ArgumentError
        If they have to move and `copy` is False.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.ones(6).reshape(2, -1).shape
    (2, 3)
    """
    sizes = shape[0] if len(shape) == 1 else shape
    if order == "C":
        return ops.reshape(self, sizes) if copy is None else ops.reshape(self, sizes, copy=copy)
    return reshape_in_order(self, sizes, order, copy, "reshape")


@explained
def _ravel(self: Tensor, /, order: str = "C") -> Tensor:
    """Return the elements as one axis; see `everyo.ravel`.

    Parameters
    ----------
    order : {"C", "F"}, default "C"
        Whether the last or the first axis counts fastest.

    Returns
    -------
    Tensor
        1-d; its gradient is reshaped back.

    Raises
    ------
    UnsupportedOperationError
        If there is no such order, or it is that of memory, which a tensor does not show.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.tensor([[1, 2], [3, 4]]).ravel("F"))
    [1 3 2 4]
    """
    return ops.ravel(self) if order == "C" else ravel_in_order(self, order, "ravel")


@explained
def _flatten(self: Tensor, /, start_axis: Any = 0, end_axis: int = -1, *, order: str = "C") -> Tensor:
    """Return the elements with some axes joined into one; see `everyo.flatten`.

    Parameters
    ----------
    start_axis, end_axis : int, default 0 and -1
        The first and the last of the axes that are joined. In place of the first there may be an order, as
        in NumPy.
    order : {"C", "F"}, default "C"
        Whether the last or the first axis counts fastest; "F" joins all axes.

    Returns
    -------
    Tensor
        At least 1-d; its gradient is reshaped back.

    Raises
    ------
    ShapeError, IndexingError, DTypeError
        If there are no such axes.
    ArgumentError
        If the order is "F" for some of the axes.
    UnsupportedOperationError
        If there is no such order, or it is that of memory, which a tensor does not show.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.tensor([[1, 2], [3, 4]]).flatten("F"))
    [1 3 2 4]
    """
    if isinstance(start_axis, str):
        start_axis, order = 0, start_axis
    if order == "C":
        return ops.flatten(self, start_axis, end_axis)
    if (start_axis, end_axis) != (0, -1):
        raise ArgumentError(
            "an order is one of all axes",
            operation="flatten",
            inputs=describe(self),
            expected='order="C" beside start_axis and end_axis',
            found=f"order={order!r}",
            remedy="transpose these axes first, and leave order out",
        )
    return ravel_in_order(self, order, "flatten")


@explained
def _copy(self: Tensor, /, order: str = "C") -> Tensor:
    """Return the elements in memory of their own, still in the graph; see `everyo.copy`.

    Parameters
    ----------
    order : {"C", "F", "A", "K"}, default "C"
        NumPy's order of the copy in memory, which makes no difference to a tensor.

    Returns
    -------
    Tensor
        Of the same shape and dtype; the gradient passes unchanged.

    Raises
    ------
    ArgumentError
        If there is no such order.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.ones(2).copy("F"))
    [1. 1.]
    """
    if order != "C":
        checked_layout(order, "copy")
    return ops.copy(self)


def _transpose(self: Tensor, /, *axes: Any) -> Tensor:
    """Return the tensor with its axes reversed or in the order given; see `everyo.transpose`.

    Parameters
    ----------
    *axes : int, or one sequence of int
        A permutation of the axes; without it they are reversed.

    Returns
    -------
    Tensor
        Of the same dtype; the gradient is transposed back.

    Raises
    ------
    ShapeError
        If it is no permutation.
    IndexingError
        If there is no such axis.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.ones((2, 3, 4)).transpose(1, 0, 2).shape
    (3, 2, 4)
    """
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
    return ops.transpose(self, order)


def _to_device(self: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    """Return the tensor on a device, as the Array API names it; see `everyo.to`.

    Parameters
    ----------
    device : str
        Its name.
    stream : None
        No device here has streams.

    Returns
    -------
    Tensor
        The same one where it is there already; the gradient comes back to the first device.

    Raises
    ------
    DeviceError
        If there is no such device.
    ArgumentError
        If a stream is given.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.ones(2).to_device("cpu").device
    'cpu'
    """
    if stream is not None:
        raise ArgumentError(
            "no device of this tensor has streams",
            operation="to_device",
            inputs=describe(self),
            expected="None",
            found=f"stream={stream!r}",
            remedy="leave the stream out",
        )
    return ops.to(self, device=device)


def _array_ufunc(self: Tensor, ufunc: Any, method: str, /, *inputs: Any, **options: Any) -> Any:
    from everyo.ops.numpy_ufuncs import array_ufunc

    _attach("__array_ufunc__", array_ufunc)  # found at once from now on
    return array_ufunc(self, ufunc, method, *inputs, **options)


def _array_function(self: Tensor, function: Any, types: Any, args: Any, options: Any) -> Any:
    from everyo.ops.numpy_functions import array_function

    _attach("__array_function__", array_function)
    return array_function(self, function, types, args, options)


def _compress(self: Tensor, condition: Any, axis: int | None = None) -> Tensor:
    """Return the slices along an axis for which a row of booleans holds; see `everyo.compress`.

    Parameters
    ----------
    condition : sequence or tensor of booleans
        1-d, at most as long as the axis; further slices are left out.
    axis : int, optional
        Along which axis; by default the tensor is flattened first.

    Returns
    -------
    Tensor
        As long along the axis as there are slices; the gradient goes back to their places.

    Raises
    ------
    IndexingError
        If the condition is longer than the axis, or there is no such axis.
    ShapeError
        If the condition is not 1-d.

    Examples
    --------
    >>> import everyo as eo
    >>> print(eo.tensor([[1, 2, 3], [4, 5, 6]]).compress([True, False, True], axis=1))
    [[1 3]
     [4 6]]
    """
    from everyo.ops.masking import compress as function

    return function(condition, self, axis)


def _divmod(self: Tensor, other: Any) -> Any:
    """Return quotient and remainder; see `everyo.divmod`."""
    from everyo.ops.quotients import divmod as function

    if is_number(self) and (other.__class__ in WEAK or is_number(other)):
        return self // other, self % other
    return NotImplemented if other.__class__ not in WEAK and _foreign(other) else function(self, other)


def _rdivmod(self: Tensor, other: Any) -> Any:
    """Return quotient and remainder of another operand by this one."""
    from everyo.ops.quotients import divmod as function

    if is_number(self) and other.__class__ in WEAK:
        return other // self, other % self
    return NotImplemented if other.__class__ not in WEAK and _foreign(other) else function(other, self)


def _rounded(self: Tensor, ndigits: int | None = None) -> Tensor:
    """Return the tensor rounded, of its own dtype; see `everyo.round`."""
    return ops.round(self, ndigits or 0)


def _names(self: Tensor) -> list[str]:
    return [name for name in object.__dir__(self) if name not in ELSEWHERE or hasattr(self, name)]


def _attach(name: str, method: Callable[..., Any]) -> None:
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    setattr(Tensor, name, method)


def attach() -> None:
    """Give `Tensor` its operators, methods and properties."""
    known = op.__dict__
    for name, operation in BINARY.items():
        if operation in known:
            function = binary(known[operation], _foreign)
            _attach(f"__{name}__", function)
            _attach(f"__r{name}__", _reflected(function))
            _attach(f"__i{name}__", _in_place(function))
    for name, operation in COMPARISONS.items():
        if operation in known:
            _attach(f"__{name}__", binary(known[operation], _foreign))
    for name, operation in UNARY.items():
        if operation in known:
            _attach(f"__{name}__", unary(known[operation]))
    _attach("__dir__", _names)
    _attach("__round__", _rounded)
    _attach("__divmod__", _divmod)
    _attach("__rdivmod__", _rdivmod)
    _attach("__getitem__", getitem)
    _attach("__setitem__", setitem)
    _attach("reshape", _reshape)
    _attach("transpose", _transpose)
    _attach("to_device", _to_device)
    _attach("__array_ufunc__", _array_ufunc)
    _attach("__array_function__", _array_function)
    for name in METHODS:
        if hasattr(ops, name):
            setattr(Tensor, name, getattr(ops, name))
    added: dict[str, Callable[..., Any]] = {
        "ravel": _ravel,
        "flatten": _flatten,
        "copy": _copy,
        "compress": explained(_compress),
    }
    for name, method in added.items():
        _attach(name, method)
    for name in ELSEWHERE:
        setattr(Tensor, name, Elsewhere(name, "tensors"))
    for name, function_name in PROPERTIES.items():
        if hasattr(ops, function_name):
            setattr(Tensor, name, property(getattr(ops, function_name)))
    for name in ("shape", "dtype", "real", "imag"):
        setattr(Tensor, name, getattr(Tensor, name).setter(refuse_setting(name)))


attach()
