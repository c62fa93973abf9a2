"""Tensor: an array, what was recorded about it, and its gradient.

Operators and array methods are attached in `everyo.ops.methods`, beside the operations they call.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from everyo.core import device as devices
from everyo.core.dtypes import require_differentiable
from everyo.core.modes import current_mode
from everyo.core.readable import Readable, not_an_array
from everyo.core.registry import op
from everyo.core.tape import LeafNode, Node, RemovableHandle, origin
from everyo.core.traced import Traced, innermost, readings, refuse_traced, staging
from everyo.errors import DTypeError, GraphStateError, describe


class Tensor(Readable):
    """An n-dimensional array that can require a gradient.

    Made by `everyo.tensor`, `everyo.asarray` and the other creation functions, not by calling the class.

    Attributes
    ----------
    data : array
        The raw array, which the engine owns and the graph shares: nothing checks what is written to it or
        into it, nor keeps shape and dtype. For an update write ``with eo.no_grad(): w -= lr * w.grad``.
    grad_node : Node or None
        What was recorded about this tensor: its operation, or for a leaf the node where its gradient
        arrives. None when it does not require grad.
    grad : Tensor or None
        The gradient accumulated so far, of this tensor's shape and dtype. What is set here must be such a
        tensor too, or None.
    """

    __slots__ = ("__weakref__", "data", "grad", "grad_node", "mutable")

    data: Any
    grad: Tensor | None
    grad_node: Node | None
    mutable: Any  # not set on most: see `everyo.core.ownership.changeable`

    __hash__ = object.__hash__

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...
        def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override] # elementwise, not object's bool
        def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override] # likewise
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __lshift__(self, other: Any) -> Tensor: ...
        def __rshift__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    # ---- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.data.shape  # type: ignore[no-any-return] # arrays of any backend are Any

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim  # type: ignore[no-any-return] # likewise

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.data.shape)

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize  # type: ignore[no-any-return] # likewise

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """The device that holds the data."""
        return self.backend.device_of(innermost(self))

    @property
    def backend(self) -> devices.Backend:
        """The backend that computes on the data."""
        data = self.data
        backend = devices.backend_of(innermost(self) if isinstance(data, Traced) else data)
        if backend is None:
            raise not_an_array(data, "data")
        return backend

    @property
    def level(self) -> int:
        """The level of the transformation that this value belongs to; 0 outside of all."""
        return self.data.level if isinstance(self.data, Traced) else 0

    # ---- the graph

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded, or a transformation differentiates it."""
        tracer = staging.get()
        if tracer is not None:
            return tracer.knows(self, "requires_grad")  # type: ignore[no-any-return]
        return self.grad_node is not None or (isinstance(self.data, Traced) and self.data.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor, and it is no argument of a transformation."""
        tracer = staging.get()
        if tracer is not None:
            return tracer.knows(self, "is_leaf")  # type: ignore[no-any-return]
        return not self.requires_grad if self.grad_node is None else self.grad_node.is_leaf

    @property
    def retains_grad(self) -> bool:
        """Whether a backward pass leaves its gradient in `grad` although this is no leaf."""
        node = self.grad_node
        return (
            node is not None
            and not node.is_leaf
            and node.extras is not None
            and (node.extras.retained is not None and node.extras.retained() is self)
        )

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start (or stop) recording operations on this leaf; return the tensor itself.

        Parameters
        ----------
        requires_grad : bool, default True
            Whether operations on it are recorded.

        Raises
        ------
        DTypeError
            If the tensor is neither floating-point nor complex.
        GraphStateError
            If an operation made the tensor and `requires_grad` is False, or in `inference_mode`.
        CompileError
            If it would change a tensor from outside while a function is compiled.

        Examples
        --------
        >>> import everyo as eo
        >>> x = eo.ones(2).requires_grad_()
        >>> x.requires_grad
        True
        """
        if staging.get() is not None:
            self._refuse_traced(requires_grad)
        if not requires_grad:
            self._refuse_transformed("requires_grad_", "use x.detach(), a constant of the same value")
            if not self.is_leaf:
                raise GraphStateError(
                    "only a leaf can stop requiring grad",
                    operation="requires_grad_",
                    expected="a tensor that no recorded operation made",
                    found=origin(self.grad_node),
                    remedy="use x.detach(), which returns a tensor without the graph",
                )
            self.grad_node = None
        elif self.grad_node is None:
            self._refuse_transformed("requires_grad_", "use eo.grad or eo.vjp in place of backward()")
            require_differentiable(self.dtype, "requires_grad_")
            if current_mode().inference:
                raise GraphStateError(
                    "inside inference_mode no tensor can require grad",
                    operation="requires_grad_",
                    expected="recording that can be switched on",
                    found="inference_mode",
                    remedy="use no_grad() instead, or leave the block first",
                )
            self.grad_node = LeafNode(self)
        return self

    def retain_grad(self) -> Tensor:
        """Keep this tensor's gradient in `grad` although it is no leaf; return the tensor itself.

        Raises
        ------
        GraphStateError
            If the tensor does not require grad.

        Examples
        --------
        >>> import everyo as eo
        >>> x = eo.tensor([2.0], requires_grad=True)
        >>> hidden = (x * 3).retain_grad()
        >>> (hidden * 2).backward()
        >>> print(hidden.grad)
        [2.]
        """
        node = self._require_node("retain_grad")
        if not node.is_leaf:
            node.ensure_extras().retained = weakref.ref(self)
        return self

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(gradient)`` when the gradient of this tensor is complete.

        A tensor that the hook returns takes the gradient's place; so does what it makes of the gradient in
        place, as by ``gradient *= 10``.

        Parameters
        ----------
        hook : callable
            Takes the gradient, returns another one or None.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook away.

        Raises
        ------
        GraphStateError
            If the tensor does not require grad.
        DTypeError
            If `hook` cannot be called.

        Examples
        --------
        >>> import everyo as eo
        >>> x = eo.tensor([2.0], requires_grad=True)
        >>> handle = x.register_hook(lambda gradient: gradient * 10)
        >>> (x * x).backward()
        >>> print(x.grad)
        [40.]
        """
        return RemovableHandle(self._require_node("register_hook").ensure_extras().on_gradient, hook)

    def _refuse_transformed(self, operation: str, remedy: str) -> None:
        """Raise GraphStateError for a value inside a transformation, whose derivative would be lost."""
        if self.level:
            name = self.data.interpreter.name
            raise GraphStateError(
                f"the tensor belongs to a running {name}",
                operation=operation,
                inputs=describe(self),
                expected="a tensor outside of transformations",
                found=f"a value inside {name}",
                remedy=remedy,
            )

    def _refuse_traced(self, requires_grad: bool) -> None:
        """Raise CompileError for a tensor from outside that would start or stop requiring grad in a trace."""
        node = self.grad_node
        if self.level or requires_grad is (node is not None):
            return
        if node is None or not staging.get().gradients.made(node):
            refuse_traced(
                "requires_grad_", f"requires_grad_({requires_grad}) of a captured tensor", "set it outside"
            )

    def _require_node(self, operation: str) -> Node:
        if self.grad_node is None:
            self._refuse_transformed(
                operation, "use eo.grad or eo.vjp inside, or differentiate what the transformation returns"
            )
            raise GraphStateError(
                "the tensor does not require grad",
                operation=operation,
                inputs=describe(self),
                expected="a leaf with requires_grad=True, or a result computed from one",
                found="a tensor without a graph",
                remedy="create it with requires_grad=True, and compute outside no_grad()",
            )
        return self.grad_node

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Accumulate the gradient of this tensor into the leaves it was computed from.

        Parameters
        ----------
        gradient : tensor or array, optional
            The gradient of the final result with respect to this tensor, of its shape. May be left
            out when the tensor has one element; it is then one.
        retain_graph : bool, optional
            Keep what was saved, so that another backward pass can follow. Default: `create_graph`.
        create_graph : bool, default False
            Record the backward pass itself, for derivatives of higher order.
        inputs : tensor or iterable of tensors, optional
            Accumulate only into these.

        Raises
        ------
        GraphStateError
            If there is no graph, or an earlier backward pass freed it.
        ShapeError
            If the tensor has several elements and no gradient is given, or its shape does not fit.
        DTypeError
            If the gradient's dtype does not fit.

        Examples
        --------
        >>> import everyo as eo
        >>> x = eo.tensor([2.0], requires_grad=True)
        >>> (x * x).backward()
        >>> print(x.grad)
        [4.]
        """
        from everyo.core.backward import backward

        backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph, inputs=inputs)

    def zero_grad(self) -> None:
        """Forget the accumulated gradient."""
        self.grad = None

    def detach(self) -> Tensor:
        """Return a tensor of the same value that is not part of the graph.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.ones(2, requires_grad=True).detach().requires_grad
        False
        """
        data = self.data
        noted = readings.get()
        if noted is not None:
            noted.append("detach")
        if not isinstance(data, Traced):
            tracer = staging.get()
            return wrap(data) if tracer is None else tracer.reading(self)
        if data.interpreter.active:
            return op.stop_gradient(self)  # type: ignore[no-any-return]
        value = data.concrete("detach")  # of a transformation that has ended
        return value.detach() if isinstance(value, Tensor) else wrap(value)

    def assign(self, value: Tensor) -> None:
        """Make this object take the value (and the graph) of `value`: the meaning of in-place statements.

        Parameters
        ----------
        value : tensor
            What it becomes.

        Raises
        ------
        GraphStateError
            If this is a leaf that requires grad and recording is on.

        Examples
        --------
        >>> import everyo as eo
        >>> x = eo.zeros(2)
        >>> x.assign(eo.ones(2))
        >>> print(x)
        [1. 1.]
        """
        tracer = staging.get()
        if tracer is not None:  # the program does it, at each call
            value = tracer.own(value)
        if self.grad_node is not None and self.grad_node.is_leaf:
            staged = value.level and value.data.interpreter.writes_outside
            if current_mode().grad or (value.level and not staged):
                from everyo.guidance.updates import of_leaf

                raise GraphStateError(
                    "a leaf that requires grad cannot be changed in place while operations are recorded",
                    operation="in-place assignment",
                    inputs=describe(self),
                    expected="recording switched off, or a tensor that is no leaf",
                    found="a leaf with requires_grad=True",
                    remedy=of_leaf(inside=value.level > 0 and not staged),
                )
            if staged:
                value.data.interpreter.adopt(self, self.data, self.grad_node)
            self.data = value.data  # an update of a parameter: it stays the same leaf
            return
        retained = self.retains_grad
        if retained:  # `grad` is from now on that of the new value
            self.grad_node.extras.retained = None  # type: ignore[union-attr]
        if isinstance(value.data, Traced) and value.level > self.level:
            value.data.interpreter.adopt(self, self.data, self.grad_node)
        elif value.grad_node is not None:
            changes = current_mode().changes
            if changes is not None:
                changes.note(self)
        self.data, self.grad_node = value.data, value.grad_node
        if retained and self.grad_node is not None:
            self.retain_grad()

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError(
                "a 0-d tensor has no length",
                operation="len",
                expected="at least one axis",
                found="shape ()",
                remedy="use x.size, or x.item() for its value",
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise DTypeError(
                "a 0-d tensor cannot be iterated over",
                operation="iter",
                expected="at least one axis",
                found="shape ()",
                remedy="use x.item() for its value",
            )
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        equal = self == value
        return isinstance(equal, Tensor) and bool(equal.any())  # nothing equals None or a string

    def __repr__(self) -> str:
        from everyo.core.printing import represent

        return represent(self)

    def __str__(self) -> str:
        return str(self._host("print"))

    def __format__(self, spec: str) -> str:
        return format(self._number("format"), spec) if spec else str(self)

    # ---- copies

    def __copy__(self) -> Tensor:
        from everyo.core.copying import shallow_copy

        return shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        from everyo.core.copying import deep_copy

        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from everyo.core.copying import reduce

        return reduce(self)


def wrap(array: Any) -> Tensor:
    """Return a raw array as a tensor without a graph."""
    tensor = Tensor()
    tensor.data = array
    tensor.grad_node = tensor.grad = None
    return tensor
