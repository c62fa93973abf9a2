"""Parameter: a tensor that a module trains."""

from __future__ import annotations

from typing import Any

from everyo.core.modes import current_mode
from everyo.core.ownership import changeable
from everyo.core.tensor import Tensor
from everyo.errors import GraphStateError, describe
from everyo.ops.creation import tensor
from everyo.ops.severing import is_followed


class Parameter(Tensor):
    """A leaf tensor that requires grad and that a `Module` registers when it is set as an attribute.

    Operations on a parameter return plain tensors.

    Parameters
    ----------
    data : tensor, array, number or nested lists
        The initial value. The array of a tensor is shared (it never changes under either of them);
        anything else is copied.
    requires_grad : bool, default True
        False freezes the parameter.

    Raises
    ------
    GraphStateError
        If `data` depends on the argument of a transformation, whose derivative would be lost.
    DTypeError
        If it is to require grad and `data` is neither floating-point nor complex.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.nn.Parameter([1.0, 2.0])
    parameter([1., 2.], dtype=float32, shape=(2,), requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        # On the tape of a gradient data have no level; with one, `requires_grad_` refuses them below.
        inside = current_mode().changes is not None
        lost = isinstance(data, Tensor) and is_followed(data)
        if lost and (not requires_grad if data.level else inside and not data.is_leaf):
            raise GraphStateError(
                "a parameter has no path to what it is made of",
                operation="Parameter",
                inputs=describe(data),
                expected="data that no transformation follows",
                found="a tensor that is differentiated",
                remedy="pass x.detach() for its value; eo.asarray(x) stays differentiable",
            )
        self.data = data.data if isinstance(data, Tensor) else tensor(data).data
        self.grad = self.grad_node = None
        changeable(self)
        if requires_grad:
            try:
                self.requires_grad_()
            except GraphStateError as error:  # `data` belongs to a transformation
                raise error.renamed(
                    "Parameter",
                    expected="parameters that are made outside of the function, which may reach them",
                    remedy="make it, or its module, before and outside; in the function eo.asarray(data) is "
                    "a tensor that stays differentiable",
                ) from None
