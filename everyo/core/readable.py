"""How the elements of a tensor leave it: as NumPy arrays and as Python numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everyo.core.traced import Traced, readings
from everyo.errors import ArgumentError, DTypeError, GraphStateError, ShapeError, describe

if TYPE_CHECKING:
    from everyo.core.device import Backend


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
        self._refuse_grad("numpy")
        view = self._host("numpy").view()
        view.flags.writeable = False
        return view

    def _host(self, operation: str) -> Any:
        """Return the elements as a NumPy array, also those of a value inside a transformation."""
        data = self.data
        noted = readings.get()
        if noted is not None and operation != "print" and data.dtype.kind in "fc":
            noted.append(operation)
        while isinstance(data, (Traced, Readable)):
            data = data.concrete(operation) if isinstance(data, Traced) else data.data
        return self.backend.to_numpy(data)

    def _refuse_grad(self, operation: str) -> None:
        if self.grad_node is not None:
            raise GraphStateError(
                "the tensor requires grad, and a NumPy array would lose its graph",
                operation=operation,
                inputs=describe(self),
                expected="a tensor that does not require grad",
                found="requires_grad=True",
                remedy="detach it first: x.detach().numpy()",
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

    def item(self) -> bool | int | float | complex:
        """Return the one element as a Python number.

        Raises
        ------
        ShapeError
            If the tensor does not have exactly one element.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.tensor([2.5]).item()
        2.5
        """
        if self.size != 1:
            raise ShapeError(
                "only a tensor with one element is a Python number",
                operation="item",
                inputs=describe(self),
                expected="one element",
                found=f"{self.size} elements",
                remedy="index or reduce it first, or use tolist()",
            )
        return self._host("item").item()  # type: ignore[no-any-return]

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
        return float(self.item())  # type: ignore[arg-type]

    def __int__(self) -> int:
        return int(self.item())  # type: ignore[arg-type]

    def __complex__(self) -> complex:
        return complex(self.item())

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
        return int(self.item())  # type: ignore[arg-type]
