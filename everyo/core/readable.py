"""How the elements of a tensor leave it: as NumPy arrays and as Python numbers."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everyo.core.modes import current_mode
from everyo.core.traced import Traced, downwards, readings, refusal, staging
from everyo.errors import (
    ArgumentError,
    DTypeError,
    GraphStateError,
    ShapeError,
    UnsupportedOperationError,
    describe,
    is_users,
)

if TYPE_CHECKING:
    from everyo.core.device import Backend

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # of the Array API standard


_LOSS = "the derivative through it is lost"
_WAY_OUT = "write x.item() if that is meant"
_DECISIONS = "for decisions use x.item(), or eo.isnan(x)"  # math.isnan asks for a float as math.sin does


def _instead(otherwise: str, more: str) -> str:
    from everyo.guidance.conversions import instead

    return instead(otherwise, more)


def not_an_array(data: Any, operation: str) -> GraphStateError:
    """Return the error for a tensor whose `data` was set to something else than an array."""
    return GraphStateError(
        "the data of a tensor was set to something that is no array",
        operation=operation,
        expected="in x.data the raw array, which the engine owns",
        found=f"x.data is a {type(data).__name__}",
        remedy="update a parameter with `with eo.no_grad(): w -= lr * w.grad`, and set it with w[...] = v",
    )


class Readable:
    """The methods of a tensor that give its elements to Python."""

    __slots__ = ()

    if TYPE_CHECKING:
        data: Any
        grad_node: Any

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> Any: ...
        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
        @property
        def level(self) -> int: ...
        @property
        def backend(self) -> Backend: ...

    def numpy(self) -> Any:
        """Return the data as a read-only NumPy array that shares memory where possible.

        Raises
        ------
        GraphStateError
            If the tensor requires grad.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.ones(2).numpy()
        array([1., 1.], dtype=float32)
        """
        self.require_constant("numpy")
        view = self._host("numpy").view()
        view.flags.writeable = False
        return view

    def concrete(self, operation: str) -> Any:
        """Return the raw array, also that of a value inside a transformation; `operation` asks for it."""
        data = self.data
        noted = readings.get()
        if noted is not None and operation != "print" and data.dtype.kind in "fc":
            noted.append(operation)
        takes = operation in ("item", "tolist") and data.dtype.kind in "fc"
        if takes and self.grad_node is not None:
            changes = current_mode().changes
            if changes is not None and self.grad_node.age >= changes.born:
                changes.taken = operation
        while isinstance(data, (Traced, Readable)):
            if takes and isinstance(data, Traced):
                data.interpreter.taken = operation
            data = data.concrete(operation) if isinstance(data, Traced) else data.data
        tracer = staging.get()
        if tracer is not None:
            tracer.values.looked(self, operation)
        return data

    def _host(self, operation: str) -> Any:
        """Return the elements as a NumPy array."""
        return self.backend.to_numpy(self.concrete(operation))

    def require_constant(self, operation: str) -> None:
        """Raise GraphStateError if the tensor would lose its graph by leaving in `operation`."""
        if self.grad_node is not None:
            raise GraphStateError(
                "the tensor requires grad, and a NumPy array would lose its graph",
                operation=operation,
                inputs=describe(self),
                expected="a tensor that does not require grad",
                found="requires_grad=True",
                remedy=_instead(
                    "write x.detach() in place of x where no derivative is meant; an array of it is "
                    "x.detach().numpy()",
                    "; for an array without a graph x.detach().numpy()",
                ),
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ArgumentError(
                    "the conversion needs a copy",
                    operation="__array__",
                    inputs=describe(self),
                    expected=f"dtype {array.dtype}",
                    found=f"dtype {dtype} and copy=False",
                    remedy="leave out copy=False, or convert the tensor first: x.astype(...)",
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        if api_version is None or api_version in API_VERSIONS:
            return sys.modules[__name__.partition(".")[0]]
        raise ArgumentError(
            "this version of the Array API standard is unknown",
            operation="__array_namespace__",
            expected="one of " + ", ".join(API_VERSIONS),
            found=repr(api_version),
            remedy="leave the version out",
        )

    def __dlpack__(
        self: Any,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from everyo.core.exchange import export

        return export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self: Any, /) -> tuple[int, int]:
        from everyo.core.exchange import device_of

        return device_of(self)

    def item(self, /, *index: Any) -> bool | int | float | complex:
        """Return the one element, or the one at an index, as a Python number.

        Parameters
        ----------
        *index : int, or one tuple of int
            Which element: its number in the flat tensor, or its place along each axis.

        Returns
        -------
        bool, int, float or complex
            Without a gradient.

        Raises
        ------
        ShapeError
            If the tensor does not have exactly one element, or there is not one index for each axis.
        IndexingError
            If there is no such element.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.tensor([2.5]).item()
        2.5
        """
        if index:
            place = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
            chosen: bool | int | float | complex = self._at(place).item()
            return chosen
        return self._number("item")

    def _number(self, operation: str) -> bool | int | float | complex:
        """Return the one element as a Python number; `operation` asks for it."""
        if self.size != 1:
            raise ShapeError(
                "only a tensor with one element is a Python number",
                operation=operation,
                inputs=describe(self),
                expected="one element",
                found=f"{self.size} elements",
                remedy="index or reduce it first, or use tolist()",
            )
        number: bool | int | float | complex = self._host(operation).item()
        return number

    def _at(self, index: tuple[Any, ...]) -> Any:
        """Return the element at an index into the flat tensor, or along each axis."""
        x: Any = self
        if len(index) == 1:
            return x.reshape(-1)[index]
        if len(index) != self.ndim:
            raise ShapeError(
                "an element has one index for each axis, or one in the flat tensor",
                operation="item",
                inputs=describe(self),
                expected=f"1 or {self.ndim} indices",
                found=f"{len(index)} indices",
                remedy="give one index for each axis",
            )
        return x[index]

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers (a number for a 0-d tensor).

        Examples
        --------
        >>> import everyo as eo
        >>> eo.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return self._host("tolist").tolist()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(
                "the truth value of a tensor with several elements is ambiguous",
                operation="bool",
                inputs=describe(self),
                expected="one element",
                found=f"{self.size} elements",
                remedy="use eo.any(x) or eo.all(x)",
            )
        return bool(self._host("bool").item())

    def __float__(self) -> float:
        self._refuse_loss("float")
        number: Any = self._number("float")  # a complex one is refused, as Python's own
        return float(number)

    def __int__(self) -> int:
        number: Any = self._number("int")
        return int(number)

    def __floor__(self) -> int:
        return self._whole("floor", math.floor)

    def __ceil__(self) -> int:
        return self._whole("ceil", math.ceil)

    def __trunc__(self) -> int:
        return self._whole("trunc", math.trunc)

    def _whole(self, operation: str, whole: Callable[[Any], int]) -> int:
        """Return the one element as an integer, by a function of Python's: no derivative is lost."""
        return whole(self._number(operation))

    def as_integer_ratio(self) -> tuple[int, int]:
        """Raise an error: `statistics` and `fractions` ask numbers for it, which have no derivative.

        Raises
        ------
        UnsupportedOperationError
            Always; it names the function of EveryO.
        """
        raise UnsupportedOperationError(
            "exact fractions are made of Python's numbers",
            operation="as_integer_ratio",
            inputs=describe(self),
            expected="int or float",
            found="a tensor",
            remedy=_instead("write x.item() for a number", "; x.item() for a number"),
        )

    def __complex__(self) -> complex:
        self._refuse_loss("complex")
        return complex(self._number("complex"))

    def _refuse_loss(self, operation: str) -> None:
        """Raise where a conversion that nobody may have asked for would cut a derivative off.

        Python and NumPy make it in ``math.sin(x)`` and ``a[i] = x``. Outside of transformations it is a
        warning, as a loss is often kept so. The text of a number has no derivative, ``"%.3f" % x`` too.
        """
        if not current_mode().grad or not self._has_derivative():
            return
        from everyo.guidance.conversions import formats

        if formats(sys._getframe(2)):
            return
        if not self.level and current_mode().changes is None:
            warnings.warn(f"{operation}() of a tensor that requires grad: {_LOSS}; {_WAY_OUT}", stacklevel=3)
            return
        error = GraphStateError(
            f"a tensor that is differentiated becomes a Python number: {_LOSS}",
            operation=operation,
            inputs=describe(self),
            expected="tensors throughout: np.sin(x) or eo.sin(x) for math.sin(x), and a tensor, eo.zeros(n), "
            "for the array a in a[i] = x",
            found="a conversion by Python, NumPy or SciPy",
            remedy=_instead(f"{_WAY_OUT}; {_DECISIONS}", "; x.item() if a plain number is meant"),
        )
        if not is_users(sys._getframe(2)):
            refusal.set(error)
        raise error

    def _has_derivative(self) -> bool:
        """Whether the tensor is recorded, or has a tangent, on any level."""
        return any(
            x.grad_node is not None or (isinstance(x.data, Traced) and x.data.differentiated)
            for x in downwards(self)
        )

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise DTypeError(
                "only a 0-d integer tensor can be an index",
                operation="index",
                inputs=describe(self),
                expected="an integer dtype and shape ()",
                found=f"{self.dtype} {self.shape}",
                remedy="convert it: int(x)",
            )
        number: Any = self._number("index")
        return int(number)
