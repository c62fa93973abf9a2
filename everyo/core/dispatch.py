"""The one door: every operation, public or inside a rule, comes through `apply`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from everyo.core import device
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.explaining import EXPLAINED, explain
from everyo.core.modes import current_mode
from everyo.core.operands import WEAK, coerce, numeric, stacked, tensors_in, without_lists
from everyo.core.registry import no_kernel
from everyo.core.tape import Node, OutputNode, next_age
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Interpreter, Traced, processing, staged, staging, top_of
from everyo.errors import EveryOError, user_line

if TYPE_CHECKING:
    from everyo.core.primitive import Primitive

NO_PARAMS: dict[str, Any] = {}


def apply(primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any] = NO_PARAMS) -> Any:
    """Compute an operation on tensors, arrays and Python scalars; return a Tensor, recorded if need be.

    Parameters
    ----------
    primitive : Primitive
        The operation.
    inputs : sequence
        Its operands.
    params : dict
        All of its static parameters.

    Returns
    -------
    Tensor
        The result; it has a `grad_node` if recording is on and an input requires grad. An operation
        with several results returns a tuple of tensors.
    """
    if len(inputs) == 1 and isinstance(x := inputs[0], Tensor):
        kernel = primitive.kernels.get(x.data.__class__)
        if kernel is not None:
            return _apply_to_one(primitive, kernel, x, params)
    arrays = []
    mask = 0
    bit = 1
    kind: Any = None
    uniform = tensors = True
    for x in inputs:
        if isinstance(x, Tensor):
            if x.grad_node is not None:
                mask |= bit
            x = x.data
        elif x.__class__ not in WEAK:
            if isinstance(x, (list, tuple)) and next(tensors_in(x), None) is not None:
                return apply(primitive, stacked(inputs), params)
            x = numeric(x, primitive.name)
            tensors = False
        arrays.append(x)
        if kind is None:
            kind = x.__class__
        elif x.__class__ is not kind and x.__class__ not in WEAK:
            uniform = False
        bit <<= 1
    kernel = primitive.kernels.get(kind)
    if kernel is None or not uniform:
        traced = top_of(arrays)
        interpreter: Any = staging.get() if traced is None else processing(traced)
        if interpreter is not None and (traced is not None or any(isinstance(x, Tensor) for x in inputs)):
            if not interpreter.active:
                interpreter.refuse_foreign(primitive, inputs)
            operands = inputs if tensors else without_lists(primitive, inputs)
            return _interpret(interpreter, primitive, operands, params)
        if interpreter is not None:  # of NumPy arrays and numbers alone, while a function is compiled
            with staged(None):
                return interpreter.fixed(apply(primitive, inputs, params))
        arrays = coerce(primitive, arrays)
        kernel = primitive.kernel_for(arrays)
    try:
        out = kernel(*arrays, **params)
    except EveryOError:
        raise
    except EXPLAINED as error:
        raise explain(primitive, arrays, params, error) from error
    if out.__class__ is not kind:
        out = settle(out)
    if mask and primitive.vjp is not None and current_mode().grad and carries_gradient(out):
        return recorded(out, record(primitive, inputs, arrays, params, out, mask))
    if out.__class__ is tuple:
        return tuple([wrap(array) for array in out])
    return wrap(out)


def _apply_to_one(primitive: Primitive, kernel: Callable[..., Any], x: Tensor, params: dict[str, Any]) -> Any:
    """As `apply`, for one operand whose kernel is known."""
    array = x.data
    try:
        out = kernel(array, **params)
    except EveryOError:
        raise
    except EXPLAINED as error:
        raise explain(primitive, (array,), params, error) from error
    parent = x.grad_node
    if out.__class__ is not array.__class__:
        out = settle(out)
        if out.__class__ is tuple:
            if parent is None or primitive.vjp is None or not current_mode().grad:
                return tuple([wrap(part) for part in out])
            return recorded(out, record(primitive, (x,), (array,), params, out, 1))
    tensor = Tensor()
    tensor.data = out
    tensor.grad = tensor.grad_node = None
    if parent is None or primitive.vjp is None:
        return tensor
    mode = current_mode()
    if not mode.grad or out.dtype.kind not in DIFFERENTIABLE:
        return tensor
    try:
        plan = primitive.plans[1]
    except KeyError:
        plan = primitive.plan(1, 1)
    tensor.grad_node = node = Node()
    node.plan = plan
    node.params = params
    node.parents = (parent,)
    node.saved = () if plan.save is None else plan.save(out, array)
    node.age = next_age()
    node.extras = node.restore = None
    if mode.anomaly:
        note(node)
    return tensor


def _interpret(
    interpreter: Interpreter, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Return what an interpreter makes of a call; errors of kernels below are explained."""
    try:
        if staging.get() is interpreter.staging:
            return interpreter.process(primitive, inputs, params)
        with staged(interpreter.staging):
            return interpreter.process(primitive, inputs, params)
    except EveryOError:
        raise
    except EXPLAINED as error:
        raise explain(primitive, inputs, params, error) from error


def record(
    primitive: Primitive,
    inputs: Sequence[Any],
    arrays: Sequence[Any],
    params: dict[str, Any],
    out: Any,
    mask: int,
) -> Node:
    """Return a new node that links a call to those `inputs` that `mask` marks.

    `arrays` are the operands and `out` the result as the level computes with them: what a node saves.
    """
    plan = primitive.plans.get(mask) or primitive.plan(mask, len(arrays))
    node = Node()
    node.plan = plan
    node.params = params
    node.parents = tuple([inputs[i].grad_node for i in plan.needed])
    node.saved = () if plan.save is None else plan.save(out, *arrays)
    node.age = next_age()
    node.restore = _restorations(primitive, arrays, out, plan.needed) if primitive.broadcasts else None
    node.extras = None
    if current_mode().anomaly:
        note(node)
    return node


def recorded(out: Any, node: Node) -> Any:
    """Return the result of a call as a tensor of `node`; several results as a tuple of tensors."""
    if out.__class__ is tuple:
        return tuple([wrap_output(array, node, i) for i, array in enumerate(out)])
    tensor = wrap(out)
    tensor.grad_node = node
    return tensor


def carries_gradient(out: Any) -> bool:
    """Whether a result may be recorded: integers and booleans are not."""
    return out.__class__ is tuple or out.dtype.kind in DIFFERENTIABLE


def _no_out(function: Callable[..., Any], args: Sequence[Any], out: Any) -> EveryOError:
    """Return the error for NumPy's ``out=``, a default argument because one that catches all takes time."""
    from everyo.guidance.calls import misfit

    return misfit(function, args, {"out": out})


def unary(primitive: Primitive) -> Callable[[Any], Any]:
    """Return `apply` written out for one operand, no parameters and one result: most calls come here."""
    kernels, plans = primitive.kernels, primitive.plans
    differentiable = primitive.vjp is not None
    pointwise = primitive.family == "elementwise"

    def function(x: Any, /, out: Any = None) -> Any:
        if out is not None:
            raise _no_out(function, (x,), out)
        if not (x.__class__ is Tensor or isinstance(x, Tensor)):
            return apply(primitive, (x,))
        array = x.data
        kind = array.__class__
        try:
            kernel = kernels[kind]
        except KeyError:
            kernel = no_kernel(kernels, kind)
        if kernel is None:
            if isinstance(array, Traced) and array.interpreter.active:
                return _interpret(processing(array), primitive, (x,), NO_PARAMS)
            return apply(primitive, (x,))
        try:
            out = kernel(array)
        except EveryOError:
            raise
        except EXPLAINED as error:
            raise explain(primitive, (array,), NO_PARAMS, error) from error
        scalar = None
        if out.__class__ is not kind:
            scalar, out = out, settle(out)
        tensor = Tensor()
        tensor.data = out
        tensor.grad = tensor.grad_node = None
        parent = x.grad_node
        if parent is None or not differentiable:
            return tensor
        mode = current_mode()
        if not mode.grad:
            return tensor
        try:
            plan = plans[1]
        except KeyError:
            plan = primitive.plan(1, 1)
        tensor.grad_node = node = Node()
        node.plan = plan
        node.params = NO_PARAMS
        node.parents = (parent,)
        save = plan.save
        if save is None:
            node.saved = ()
        elif scalar is None or not pointwise:
            node.saved = save(out, array)
        else:
            node.saved = save(scalar, _bare(array))
        node.age = next_age()
        node.extras = node.restore = None
        if mode.anomaly:
            note(node)
        return tensor

    return function


def binary(primitive: Primitive, foreign: Callable[[Any], bool] | None = None) -> Callable[[Any, Any], Any]:
    """Return `apply` written out for two operands, as `unary` does for one.

    `foreign` makes it an operator: it says for which other operand Python should ask that operand's class.
    """
    kernels, plans = primitive.kernels, primitive.plans
    differentiable = primitive.vjp is not None
    keeps_scalars = primitive.options.get("keeps_scalars", False)
    pointwise = primitive.family == "elementwise"

    def function(x1: Any, x2: Any, /, out: Any = None) -> Any:
        if out is not None:
            raise _no_out(function, (x1, x2), out)
        a1, a2 = x1, x2
        node1 = node2 = None
        if x1.__class__ is Tensor or isinstance(x1, Tensor):
            a1 = x1.data
            node1 = x1.grad_node
        if x2.__class__ is Tensor or isinstance(x2, Tensor):
            a2 = x2.data
            node2 = x2.grad_node
        kind = a1.__class__
        if kind is not a2.__class__:
            if not keeps_scalars:
                if a2.__class__ in WEAK:
                    a2 = device.scalar_like(a2, a1)
                elif kind in WEAK:
                    a1 = device.scalar_like(a1, a2)
                    kind = a1.__class__
            other = a2.__class__
            if kind is not other and other not in WEAK and kernels.get(kind) is not kernels.get(other):
                kind = Traced  # no kernel unless the two are of one backend, as NumPy's arrays and scalars
        elif a1 is x1 or a2 is x2:  # an array that no tensor vouches for
            a1, a2 = numeric(a1, primitive.name), numeric(a2, primitive.name)
        try:
            kernel = kernels[kind]
        except KeyError:
            kernel = no_kernel(kernels, kind)
        if kernel is None:
            if (a1 is not x1 or a1.__class__ in WEAK) and (a2 is not x2 or a2.__class__ in WEAK):
                same = isinstance(a1, Traced) and kind is a2.__class__ and a1.interpreter is a2.interpreter
                traced = a1 if same else top_of((a1, a2))
                if traced is not None and traced.interpreter.active:
                    return _interpret(processing(traced), primitive, (x1, x2), NO_PARAMS)
            if foreign is not None and foreign(x2):
                return NotImplemented
            return apply(primitive, (x1, x2))
        try:
            out = kernel(a1, a2)
        except EveryOError:
            raise
        except EXPLAINED as error:
            raise explain(primitive, (a1, a2), NO_PARAMS, error) from error
        if out.__class__ is not kind:
            out = settle(out)
        tensor = Tensor()
        tensor.data = out
        tensor.grad = tensor.grad_node = None
        if not differentiable or (node1 is None and node2 is None):
            return tensor
        mode = current_mode()
        if not mode.grad:
            return tensor
        nbytes, ndim = out.nbytes, out.ndim
        parents: Any  # none of them is None
        if node2 is None:
            mask, parents = 1, (node1,)
        elif node1 is None:
            mask, parents = 2, (node2,)
        else:
            mask, parents = 3, (node1, node2)
        try:
            plan = plans[mask]
        except KeyError:
            plan = primitive.plan(mask, 2)
        tensor.grad_node = node = Node()
        node.plan = plan
        node.params = NO_PARAMS
        node.parents = parents
        save = plan.save
        if save is None:
            node.saved = ()
        elif ndim or not pointwise:
            node.saved = save(out, a1, a2)
        else:
            node.saved = save(_bare(out), _bare(a1), _bare(a2))
        node.age = next_age()
        node.extras = node.restore = None
        if pointwise and nbytes:  # as `_restorations`, written out
            layout1 = layout2 = None
            if node1 is not None and (a1.nbytes != nbytes or a1.ndim != ndim):
                layout1 = a1.shape, a1.dtype
            if node2 is not None and (a2.nbytes != nbytes or a2.ndim != ndim):
                layout2 = a2.shape, a2.dtype
            if layout1 is not None or layout2 is not None:
                node.restore = (layout1, layout2) if mask == 3 else (layout1 or layout2,)
        else:
            node.restore = _restorations(primitive, (a1, a2), out, plan.needed)
        if mode.anomaly:
            note(node)
        return tensor

    return function


def _restorations(primitive: Primitive, arrays: Sequence[Any], out: Any, needed: Sequence[int]) -> Any:
    """Return shape and dtype of the needed inputs if any was broadcast or promoted, else None.

    None may also stand in place of one that was neither.
    """
    pointwise = primitive.family == "elementwise"
    whole = out[0] if out.__class__ is tuple else out  # several results of one shape and dtype
    shape, dtype = whole.shape, whole.dtype
    layouts: list[Any] = []
    differ = False
    for i in needed:
        x = arrays[i]
        if pointwise and _as_large(x, out):
            layouts.append(None)
            continue
        layout = x.shape, x.dtype
        layouts.append(layout)
        differ = differ or layout != (shape, dtype)
    return tuple(layouts) if differ else None


def _as_large(x: Any, out: Any) -> bool:
    """Whether an operand has as many bytes and axes as the result: cheaper than to compare shapes and dtypes.

    An operand that was broadcast or promoted has less, unless the operation is a matrix product, where a
    factor may have the size of the result by chance.
    """
    while True:
        if x.__class__ is Tensor and out.__class__ is Tensor:
            x, out = x.data, out.data
        if x.__class__ is not out.__class__:
            return False
        if not isinstance(x, Traced):
            nbytes = out.nbytes
            return bool(nbytes and x.nbytes == nbytes and x.ndim == out.ndim)
        if x.interpreter is not out.interpreter:
            return False
        x, out = x.below, out.below  # two values of one batch are alike if their batches are


def each(function: Callable[[Any], Any], out: Any) -> Any:
    """Return a function of the result of an operation; where it has several, a tuple with that of each."""
    return tuple(map(function, out)) if isinstance(out, tuple) else function(out)


def settle(out: Any) -> Any:
    """Return a kernel's result as its backend's array, whatever scalar type the kernel made of it."""
    kind = out.__class__
    if kind is tuple:
        return tuple([settle(array) for array in out])
    try:
        convert = device.converters[kind]
    except KeyError:
        convert = device.converter(out)
    return out if convert is None else convert(out)


def _bare(x: Any) -> Any:
    """Return a 0-d array as a scalar: NumPy computes with its own in a tenth of the time."""
    return x if x.__class__ in WEAK else x[()]


def wrap_output(array: Any, node: Node | None, index: int) -> Tensor:
    """Return result `index` of an operation with several; integer results carry no gradient."""
    tensor = wrap(array)
    if node is not None and array.dtype.kind in DIFFERENTIABLE:
        tensor.grad_node = OutputNode(node, index)
    return tensor


def note(node: Node) -> None:
    """Keep the source line and a checksum of the residuals, for `detect_anomaly`."""
    from everyo.core.anomaly import checksums

    extras = node.ensure_extras()
    extras.line = user_line()
    extras.checksums = checksums(node.saved)
