"""The backward pass: seed the outputs, walk the graph, hand the gradients over.

Inside the walk values are raw arrays (or tensors under ``create_graph``), and complex cotangents are
plain transposes: for ``y = f(z)`` a rule returns ``g * f'(z)``. The gradient that users see and give,
``dL/dx + i dL/dy``, is the conjugate of that; it is conjugated where it enters and leaves.
"""

from __future__ import annotations

import _thread  # all of threading would cost the import of the package a millisecond
from collections.abc import Iterable, Sequence
from typing import Any

from everyo.core.cotangents import Partial
from everyo.core.device import backend_of, scalar_like
from everyo.core.dispatch import settle
from everyo.core.operands import array_from
from everyo.core.ownership import changeable
from everyo.core.registry import op
from everyo.core.tape import LeafNode, Node
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced, staging
from everyo.core.walk import Walk
from everyo.errors import ArgumentError, DTypeError, EveryOError, GraphStateError, ShapeError, describe

_accumulating = _thread.allocate_lock()


def backward(
    outputs: Tensor | Sequence[Tensor],
    gradients: Any = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Iterable[Tensor] | None = None,
) -> None:
    """Accumulate the gradients of `outputs` into the leaves; the meaning of `Tensor.backward`.

    Nothing is accumulated before the whole pass has succeeded, so an exception in a rule or a hook
    leaves every ``grad`` as it was.

    Parameters
    ----------
    outputs : tensor or sequence of tensors
        The results to start from.
    gradients : tensor, array or sequence of such, optional
        The gradient of each result, of its shape. May be left out, or None, for results of one element: one.
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
        If a result has several elements and no gradient is given, or a shape does not fit.
    DTypeError
        If a gradient's dtype does not fit.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor(2.0, requires_grad=True)
    >>> eo.autograd.backward([x * x, 3 * x])
    >>> print(x.grad)
    7.0
    """
    roots = _as_tuple(outputs, "outputs")
    chosen = None if inputs is None else _as_tuple(inputs, "inputs")
    targets = None if chosen is None else {x._require_node("backward") for x in chosen}
    arrived = run(roots, _as_seeds(gradients, roots), targets, retain_graph, create_graph)
    receivers: list[tuple[Tensor, Any]] = []
    for node, cotangent in arrived.items():
        if isinstance(node, LeafNode):
            receiver = node.leaf()
            if receiver is not None and (receiver.grad_node is None or receiver.grad_node.parents):
                receiver = None  # it was frozen since the forward pass
        else:
            receiver = node.extras.retained() if node.extras and node.extras.retained else None
        for x in chosen or ():
            if x.grad_node is node:
                receiver = x
        if receiver is not None:
            _require_addable(receiver)
            receivers.append((receiver, leave(cotangent, receiver)))
    with _accumulating:
        for receiver, gradient in receivers:
            accumulate_grad(receiver, gradient)


def _require_addable(receiver: Tensor) -> None:
    """Raise unless the gradient that `receiver` holds, perhaps set by the user, is one of its own kind."""
    held: Any = receiver.grad
    if held is None:
        return
    kind: type[EveryOError] | None = None
    if not isinstance(held, Tensor) or held.dtype != receiver.dtype:
        kind = DTypeError
    elif tuple(held.shape) != tuple(receiver.shape):
        kind = ShapeError
    if kind is not None:
        raise kind(
            "the grad that was set is no gradient of its tensor, so nothing can be added to it",
            operation="backward",
            expected=f"None or a tensor: {describe(receiver)}",
            found=describe(held),
            remedy="call zero_grad(), or set a tensor of that shape and dtype",
        )


def accumulate_grad(receiver: Tensor, gradient: Tensor) -> None:
    """Add `gradient` to what `receiver` has; the old gradient tensor itself does not change."""
    held = receiver.grad
    if held is None:
        receiver.grad = changeable(gradient)
    elif _is_plain(held) and _is_plain(gradient):
        receiver.grad = changeable(wrap(settle(held.data + gradient.data)))
    else:
        receiver.grad = changeable(held + gradient)


def _is_plain(x: Tensor) -> bool:
    """Whether a tensor has neither a graph nor a level."""
    return x.grad_node is None and not isinstance(x.data, Traced)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `outputs` with respect to `inputs`; no ``grad`` attribute changes.

    Parameters
    ----------
    outputs : tensor or sequence of tensors
        What is differentiated; several outputs are summed, weighted by `grad_outputs`.
    inputs : tensor or iterable of tensors
        With respect to what; leaves or intermediate results.
    grad_outputs : tensor, array or a sequence of them, optional
        The gradient with respect to each output, of its shape. May be left out for outputs of one
        element; it is then one.
    retain_graph : bool, optional
        Keep what was saved for another pass. Default: `create_graph`.
    create_graph : bool, default False
        Record the pass itself, for derivatives of higher order.
    allow_unused : bool, default `materialize_grads`
        Return None for an input that the outputs do not depend on, instead of raising.
    materialize_grads : bool, default False
        Return zeros for such an input.

    Returns
    -------
    tuple of Tensor or None
        One for each input, of its shape and dtype.

    Raises
    ------
    GraphStateError
        If an input does not require grad or is unused, or the graph was freed.
    ShapeError, DTypeError
        If a given gradient does not fit its output.
    ArgumentError
        If there is no output or no input, or ``materialize_grads=True`` beside ``allow_unused=False``.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([3.0], requires_grad=True)
    >>> (g,) = eo.autograd.grad(x * x * x, x, create_graph=True)
    >>> (h,) = eo.autograd.grad(g, x)
    >>> print(g.detach(), h)
    [27.] [18.]
    """
    if materialize_grads and allow_unused is False:
        raise ArgumentError(
            "zeros in place of what is unused allow it to be unused",
            operation="grad",
            expected="allow_unused left out, or True",
            found="allow_unused=False beside materialize_grads=True",
            remedy="leave one of the two out",
        )
    roots, chosen = _as_tuple(outputs, "outputs"), _as_tuple(inputs, "inputs")
    nodes = [x._require_node("grad") for x in chosen]
    arrived = run(roots, _as_seeds(grad_outputs, roots), set(nodes), retain_graph, create_graph)
    results: list[Tensor | None] = []
    for i, (x, node) in enumerate(zip(chosen, nodes, strict=True)):
        cotangent = arrived.get(node)
        if cotangent is None and materialize_grads:
            results.append(op.zeros_like(x))
            continue
        if cotangent is None and not allow_unused:
            raise GraphStateError(
                f"input {i} was not used to compute the outputs",
                operation="grad",
                inputs=describe(x),
                expected="inputs that the outputs depend on",
                found="no path from the outputs",
                remedy="pass allow_unused=True to get None for it, or materialize_grads=True for zeros",
            )
        results.append(None if cotangent is None else leave(cotangent, x))
    return tuple(results)


def run(
    roots: Sequence[Tensor],
    gradients: Sequence[Any],
    targets: set[Node] | None,
    retain_graph: bool | None,
    create_graph: bool,
) -> dict[Node, Any]:
    """Seed `roots` and walk back; return the cotangents that arrived at the targets, or at the leaves."""
    retain = create_graph if retain_graph is None else retain_graph
    inside = staging.get() is not None or any(g is not None and getattr(g, "level", 0) for g in gradients)
    for root in roots:
        inside = inside or isinstance(root.data, Traced)
    if inside:
        from everyo.core.descent import run_inside

        return run_inside(roots, gradients, targets, retain, create_graph)
    walk = Walk(targets, retain, create_graph)
    for i, (root, gradient) in enumerate(zip(roots, gradients)):
        walk.seed(root._require_node("backward"), enter(root, gradient, i, create_graph))
    return walk.run(roots[0].backend)


def _implicit(root: Tensor, create_graph: bool) -> Any:
    """Return the cotangent of a real scalar: one."""
    if root.size != 1:
        raise ShapeError(
            "only a tensor with one element has an implicit gradient",
            operation="backward",
            inputs=describe(root),
            expected="one element, or a gradient of the tensor's shape",
            found=f"{root.size} elements and no gradient",
            remedy="reduce it, as in y.sum().backward(), pass gradient=..., or use eo.jacobian",
        )
    if root.dtype.kind == "c":
        raise DTypeError(
            "a complex result has no implicit gradient",
            operation="backward",
            inputs=describe(root),
            expected="a real result, or a gradient",
            found=str(root.dtype),
            remedy="reduce to a real loss, for example y.abs().sum(), or pass gradient=...",
        )
    if root.level:
        return op.ones_like(root)
    seed, xp = scalar_like(1, root.data), root.backend.xp
    if isinstance(seed, int):  # it has no such array
        seed = xp.ones_like(root.data)
    else:
        seed = xp.reshape(xp.asarray(seed, copy=True), root.shape)
    return wrap(seed) if create_graph else seed


def enter(root: Tensor, gradient: Any, position: int, create_graph: bool) -> Any:
    """Return the checked cotangent of `root` from what the user gave; one if that is nothing."""
    if gradient is None:
        return _implicit(root, create_graph)
    given = gradient
    if not isinstance(gradient, Tensor):
        backend, device = root.backend, root.device
        if backend_of(gradient) is None:
            met = [root.dtype] if root.dtype.kind in "fc" else []  # a number is as weak as an operand
            gradient = array_from(gradient, backend, device, "backward", met=met)
            if gradient.dtype.kind in "biuf" and root.dtype.kind in "fc":
                gradient = backend.asarray(gradient, root.dtype, device)
        gradient = wrap(backend.asarray(gradient, None, device, copy=True))
    if tuple(gradient.shape) != tuple(root.shape):
        raise ShapeError(
            f"the gradient of output {position} has another shape than the output",
            operation="backward",
            expected=f"shape {tuple(root.shape)}",
            found=f"shape {tuple(gradient.shape)}",
            remedy="pass a gradient of the output's shape, for example eo.ones_like(y)",
        )
    if gradient.dtype != root.dtype:
        raise DTypeError(
            f"the gradient of output {position} has another dtype than the output",
            operation="backward",
            expected=str(root.dtype),
            found=str(given.dtype if hasattr(given, "dtype") else gradient.dtype),
            remedy=f"convert it: gradient.astype(eo.{root.dtype})",
        )
    seed = gradient if create_graph or gradient.level else gradient.data
    return op.conj(seed) if root.dtype.kind == "c" else seed


def leave(cotangent: Any, receiver: Tensor) -> Tensor:
    """Return a cotangent as the gradient users see: conjugated, of the receiver's shape and dtype."""
    if isinstance(cotangent, Partial):
        cotangent = cotangent.settle()
    found, dtype = cotangent.dtype, receiver.dtype
    if found.kind == "c" and dtype.kind == "c":
        cotangent = op.conj(cotangent)
    if found is not dtype and found != dtype:
        cotangent = op.sum_to(cotangent, shape=tuple(receiver.shape), dtype=dtype)
    if cotangent.shape != receiver.shape and tuple(cotangent.shape) != tuple(receiver.shape):
        raise ShapeError(
            "a rule returned a cotangent of the wrong shape",
            operation="backward",
            expected=f"shape {tuple(receiver.shape)}",
            found=f"shape {tuple(cotangent.shape)}",
            remedy="correct the vjp rule of the operation that used this tensor",
        )
    if isinstance(cotangent, Tensor):
        return cotangent
    backend = backend_of(cotangent) or receiver.backend
    return wrap(backend.xp.materialize(cotangent))


def _as_tuple(tensors: Tensor | Iterable[Tensor], role: str) -> tuple[Tensor, ...]:
    single = isinstance(tensors, Tensor) or not isinstance(tensors, Iterable)
    found: tuple[Any, ...] = (tensors,) if single else tuple(tensors)
    for t in found:
        if not isinstance(t, Tensor):
            raise DTypeError(
                "only tensors can be differentiated",
                operation="backward",
                expected="a tensor or several tensors",
                found=type(tensors if single else t).__name__,
                remedy="make it one with eo.tensor(..., requires_grad=True)",
            )
    if not found:
        raise ArgumentError(
            f"there are no {role}",
            operation="backward",
            expected="at least one tensor",
            found="none",
            remedy="pass the tensors to differentiate, or with respect to which",
        )
    return found


def _as_seeds(gradients: Any, roots: Sequence[Tensor]) -> Sequence[Any]:
    """Return one given gradient, or None, for each root."""
    if gradients is None:
        return [None] * len(roots)
    listed = list(gradients) if isinstance(gradients, (tuple, list)) else []
    if len(roots) == 1:  # a list of numbers is the gradient itself
        alone = len(listed) == 1 and (listed[0] is None or hasattr(listed[0], "dtype"))
        return listed if alone else [gradients]
    if len(listed) == len(roots):
        return listed
    raise ShapeError(
        "there must be one gradient for each output",
        operation="backward",
        expected=f"{len(roots)} gradients",
        found=f"{len(gradients)}" if isinstance(gradients, (tuple, list)) else type(gradients).__name__,
        remedy="pass a sequence of the outputs' length, with None for outputs of one element",
    )
