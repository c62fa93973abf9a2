"""The backward pass: walk the graph from its youngest node to its oldest, passing cotangents on.

Inside the walk values are raw arrays (or tensors under ``create_graph``), and complex cotangents are
plain transposes: for ``y = f(z)`` a rule returns ``g * f'(z)``. The gradient that users see and give,
``dL/dx + i dL/dy``, is the conjugate of that; it is conjugated where it enters and leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from everyo.core import anomaly
from everyo.core.cotangents import Partial, add
from everyo.core.device import backend_of
from everyo.core.dispatch import array_from, settle, wrap, wrap_output
from everyo.core.modes import current_mode, reset_mode, set_mode
from everyo.core.primitive import ALL, OUT, STATIC, Plan
from everyo.core.registry import op
from everyo.core.tape import FREED, Extras, LeafNode, Node
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, GraphStateError, ShapeError, describe

_accumulating = threading.Lock()


def topological_order(roots: Iterable[Node]) -> list[Node]:
    """Return all nodes that `roots` were computed from, oldest first: parents before their children."""
    pending = list(roots)
    seen = set(pending)
    for node in pending:
        for parent in node.parents:
            if parent not in seen:
                seen.add(parent)
                pending.append(parent)
    pending.sort(key=_age)
    return pending


def _age(node: Node) -> int:
    return node.age


def backward(
    outputs: Tensor | Sequence[Tensor],
    gradients: Any = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulate the gradients of `outputs` into the leaves; the meaning of `Tensor.backward`.

    Nothing is accumulated before the whole pass has succeeded, so an exception in a rule or a hook
    leaves every ``grad`` as it was.
    """
    roots = _as_tuple(outputs)
    chosen = None if inputs is None else _as_tuple(inputs)
    if chosen is not None:
        for x in chosen:
            x._require_node("backward")
    targets = None if chosen is None else {x.grad_node for x in chosen}
    arrived = run(roots, _as_seeds(gradients, roots), targets, retain_graph, create_graph)
    receivers: list[tuple[Tensor, Any]] = []
    for node, cotangent in arrived.items():
        if isinstance(node, LeafNode):
            receiver = node.leaf()
        else:
            receiver = node.extras.retained() if node.extras and node.extras.retained else None
        for x in chosen or ():
            if x.grad_node is node:
                receiver = x
        if receiver is not None:
            receivers.append((receiver, leave(cotangent, receiver)))
    with _accumulating:
        for receiver, gradient in receivers:
            accumulate_grad(receiver, gradient)


def accumulate_grad(receiver: Tensor, gradient: Tensor) -> None:
    """Add `gradient` to what `receiver` has; the old gradient tensor itself does not change."""
    if receiver.grad is None:
        receiver.grad = gradient
    elif gradient.requires_grad or receiver.grad.requires_grad:
        receiver.grad = receiver.grad + gradient
    else:
        receiver.grad = wrap(settle(op.add(receiver.grad.data, gradient.data)))


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `outputs` with respect to `inputs`; no ``grad`` attribute changes.

    Parameters
    ----------
    outputs : tensor or sequence of tensors
        What is differentiated; several outputs are summed, weighted by `grad_outputs`.
    inputs : tensor or sequence of tensors
        With respect to what; leaves or intermediate results.
    grad_outputs : tensor, array or a sequence of them, optional
        The gradient with respect to each output, of its shape. May be left out for outputs of one
        element; it is then one.
    retain_graph : bool, optional
        Keep what was saved for another pass. Default: `create_graph`.
    create_graph : bool, default False
        Record the pass itself, for derivatives of higher order.
    allow_unused : bool, default False
        Return None for an input that the outputs do not depend on, instead of raising.

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

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([3.0], requires_grad=True)
    >>> (g,) = eo.autograd.grad(x * x * x, x, create_graph=True)
    >>> (h,) = eo.autograd.grad(g, x)
    >>> print(g.detach(), h)
    [27.] [18.]
    """
    roots, chosen = _as_tuple(outputs), _as_tuple(inputs)
    for x in chosen:
        x._require_node("grad")
    arrived = run(
        roots, _as_seeds(grad_outputs, roots), {x.grad_node for x in chosen}, retain_graph, create_graph
    )
    results: list[Tensor | None] = []
    for i, x in enumerate(chosen):
        assert x.grad_node is not None
        cotangent = arrived.get(x.grad_node)
        if cotangent is None and not allow_unused:
            raise GraphStateError(
                f"input {i} was not used to compute the outputs",
                operation="grad",
                inputs=describe(x),
                expected="inputs that the outputs depend on",
                found="no path from the outputs",
                remedy="pass allow_unused=True to get None for it",
            )
        results.append(None if cotangent is None else leave(cotangent, x))
    return tuple(results)


def run(
    roots: Sequence[Tensor],
    gradients: Sequence[Any],
    targets: set[Node | None] | None,
    retain_graph: bool | None,
    create_graph: bool,
) -> dict[Node, Any]:
    """Walk back from `roots`; return the cotangents that arrived.

    `targets` narrows the walk to the paths that reach those nodes; without it cotangents are
    returned for every leaf and every node that retains its gradient.
    """
    retain = create_graph if retain_graph is None else retain_graph
    pending: dict[Node, Any] = {}
    for i, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
        node = root._require_node("backward")
        seed = enter(root, gradient, i, create_graph)
        pending[node] = pending[node] + seed if node in pending else seed
    order = topological_order(pending)
    useful = None if targets is None else _leading_to(order, targets)
    token = set_mode(current_mode().replace(grad=create_graph))
    try:
        with roots[0].backend.quiet() as watch:
            return _walk(order, pending, targets, useful, retain, create_graph, watch)
    finally:
        reset_mode(token)


def _leading_to(order: list[Node], targets: set[Node | None]) -> set[Node | None]:
    """Return `targets` and every node of `order` with a path to one of them."""
    useful = set(targets)
    for node in order:
        if not useful.isdisjoint(node.parents):
            useful.add(node)
    return useful


def _walk(
    order: list[Node],
    pending: dict[Node, Any],
    targets: set[Node | None] | None,
    useful: set[Node | None] | None,
    retain: bool,
    create_graph: bool,
    watch: Any,
) -> dict[Node, Any]:
    arrived: dict[Node, Any] = {}
    checking = current_mode().anomaly
    cotangents: Any
    while order:
        node = order.pop()
        if node not in pending:
            node.saved = node.saved if retain else FREED
            continue
        g = pending.pop(node)
        if isinstance(g, Partial):
            g = g.settle()
        extras = node.extras
        if extras is not None and extras.on_gradient:
            g = run_gradient_hooks(extras, g, create_graph)
        parents = node.parents
        if not parents:
            arrived[node] = g
            continue
        plan, restore, saved = node.plan, node.restore, node.saved
        if useful is not None and targets is not None:
            if node in targets:
                arrived[node] = g
            if useful.isdisjoint(parents):
                continue
            if not useful.issuperset(parents):
                parents, plan, restore = _narrowed(node, useful)
        elif extras is not None and extras.retained is not None:
            arrived[node] = g
        if saved is FREED:
            node.require_saved()
        if create_graph:
            saved = residual_tensors(node)
        if extras is not None:
            if extras.checksums is not None:
                anomaly.check_unchanged(node)
            if extras.before:
                (g,) = run_node_hooks(extras.before, create_graph, (g,))
        cotangents = plan.pull(g, saved, node.params)
        if watch.tripped:
            watch.tripped = False
            if plan.primitive.family == "elementwise":
                cotangents = repair(cotangents, g, saved)
        if restore is not None:
            cotangents = _restore(cotangents, restore)
        if extras is not None and extras.after:
            cotangents = run_node_hooks(extras.after, create_graph, tuple(cotangents), (g,))
        if checking:
            anomaly.check_finite(node, cotangents)
        position = 0
        for parent in parents:
            cotangent = cotangents[position]
            position += 1
            if parent in pending:
                if cotangent is not None:
                    pending[parent] = add(pending[parent], cotangent)
            elif cotangent is not None:
                pending[parent] = cotangent
        g = saved = cotangents = cotangent = None  # let go before the next rule allocates
        if not retain:
            node.saved = FREED
    return arrived


def _narrowed(node: Node, useful: set[Node | None]) -> tuple[tuple[Node, ...], Plan, Any]:
    """Return the useful parents of `node` and the plan and restorations for them alone."""
    keep = [k for k, parent in enumerate(node.parents) if parent in useful]
    plan = node.plan
    recorded = sum(1 << i for i in plan.needed)
    narrowed = plan.primitive.plan(recorded, plan.count, sum(1 << plan.needed[k] for k in keep))
    restore = None if node.restore is None else tuple(node.restore[k] for k in keep)
    return tuple(node.parents[k] for k in keep), narrowed, restore


def _restore(cotangents: Sequence[Any], restore: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """Undo broadcasting and promotion: the one place where cotangents are summed back."""
    return [
        c if c is None or (c.shape == shape and c.dtype == dtype) else op.sum_to(c, shape=shape, dtype=dtype)
        for c, (shape, dtype) in zip(cotangents, restore, strict=True)
    ]


def repair(cotangents: Sequence[Any], g: Any, saved: Sequence[Any]) -> list[Any]:
    """Set the cotangent to 0 where the incoming one is 0: an infinite slope times nothing is nothing.

    A residual that is itself NaN keeps its NaN. Called only when an elementwise rule made a NaN.
    """
    dead = op.equal(g, 0)
    for residual in saved:
        if getattr(residual, "dtype", None) is not None:
            dead = op.logical_and(dead, op.logical_not(op.isnan(residual)))
    return [None if c is None else op.where(dead, op.zeros_like(c), c) for c in cotangents]


def pull_back(node: Node, cotangent: Any) -> Sequence[Any]:
    """Return the raw cotangents of the parents of `node` for a raw cotangent of its output."""
    node.require_saved()
    cotangents = node.plan.pull(cotangent, node.saved, node.params)
    return cotangents if node.restore is None else _restore(cotangents, node.restore)


def residual_tensors(node: Node) -> tuple[Any, ...]:
    """Return what `node` saved as tensors that are linked to the graph again."""
    parent_of = dict(zip(node.plan.needed, node.parents, strict=True))
    linked: list[Any] = []
    for value, origin in zip(node.saved, node.plan.origins, strict=True):
        if origin == OUT:
            linked.append(_relink(value, node))
        elif origin == ALL:
            linked.append(tuple(_relink(v, parent_of.get(i)) for i, v in enumerate(value)))
        elif origin == STATIC:
            linked.append(value)
        else:
            linked.append(_relink(value, parent_of.get(origin)))
    return tuple(linked)


def _relink(value: Any, node: Node | None) -> Any:
    if isinstance(value, tuple):
        return tuple(wrap_output(v, node, i) for i, v in enumerate(value))
    if backend_of(value) is None:
        return value
    tensor = wrap(value)
    tensor.grad_node = node
    return tensor


def enter(root: Tensor, gradient: Any, position: int, create_graph: bool) -> Any:
    """Return the checked cotangent of `root` from what the user gave; ones if that is nothing."""
    if gradient is None:
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
        seed = root.backend.xp.ones_like(root.data)
        return wrap(seed) if create_graph else seed
    given = gradient
    if not isinstance(gradient, Tensor):
        backend, device = root.backend, root.device
        if backend_of(gradient) is None:
            gradient = array_from(gradient, backend, device, "backward")
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
    seed = gradient if create_graph else gradient.data
    return op.conj(seed) if root.dtype.kind == "c" else seed


def leave(cotangent: Any, receiver: Tensor) -> Tensor:
    """Return a cotangent as the gradient users see: conjugated, of the receiver's shape and dtype."""
    if isinstance(cotangent, Partial):
        cotangent = cotangent.settle()
    if cotangent.dtype.kind == "c" and receiver.dtype.kind == "c":
        cotangent = op.conj(cotangent)
    if cotangent.dtype != receiver.dtype:
        cotangent = op.sum_to(cotangent, shape=tuple(receiver.shape), dtype=receiver.dtype)
    if tuple(cotangent.shape) != tuple(receiver.shape):
        raise ShapeError(
            "a rule returned a cotangent of the wrong shape",
            operation="backward",
            expected=f"shape {tuple(receiver.shape)}",
            found=f"shape {tuple(cotangent.shape)}",
            remedy="correct the vjp rule of the operation that used this tensor",
        )
    if isinstance(cotangent, Tensor):
        return cotangent
    return wrap(receiver.backend.xp.materialize(cotangent))


def run_gradient_hooks(extras: Extras, g: Any, create_graph: bool) -> Any:
    """Pass a complete cotangent through the hooks of its tensor, as the gradient users know."""
    complex_ = g.dtype.kind == "c"
    for hook in tuple(extras.on_gradient.values()):
        shown = op.conj(g) if complex_ else g
        result = hook(shown if isinstance(shown, Tensor) else wrap(backend_of(shown).xp.materialize(shown)))
        if result is None:
            continue
        if not isinstance(result, Tensor) or result.shape != g.shape or result.dtype != g.dtype:
            raise ShapeError(
                "a gradient hook returned something that is no gradient of its tensor",
                operation="hook",
                expected=f"None or a tensor: {describe(g)}",
                found=describe(result),
                remedy="return a tensor of the gradient's shape and dtype",
            )
        g = result if create_graph else result.data
        g = op.conj(g) if complex_ else g
    return g


def run_node_hooks(hooks: dict[int, Any], create_graph: bool, values: Any, *context: Any) -> Any:
    """Pass cotangents through the hooks of a node; a tuple that a hook returns replaces them."""

    def shown(items: Any) -> tuple[Any, ...]:
        settled = (v.settle() if isinstance(v, Partial) else v for v in items)
        return tuple(v if v is None or isinstance(v, Tensor) else wrap(v) for v in settled)

    for hook in tuple(hooks.values()):
        result = hook(shown(values), *(shown(items) for items in context))
        if result is None:
            continue
        if not isinstance(result, tuple) or len(result) != len(values):
            raise ShapeError(
                "a node hook returned something else than one cotangent for each that it was given",
                operation="hook",
                expected=f"None or a tuple of {len(values)}",
                found=repr(type(result).__name__),
                remedy="return a tuple of the same length",
            )
        values = tuple(v.data if isinstance(v, Tensor) and not create_graph else v for v in result)
    return values


def _as_tuple(tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    found = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    for t in found:
        if not isinstance(t, Tensor):
            raise DTypeError(
                "only tensors can be differentiated",
                operation="backward",
                expected="a tensor or a sequence of tensors",
                found=type(t).__name__,
                remedy="make it one with eo.tensor(..., requires_grad=True)",
            )
    return found


def _as_seeds(gradients: Any, roots: Sequence[Tensor]) -> Sequence[Any]:
    """Return one given gradient, or None, for each root."""
    if gradients is None:
        return [None] * len(roots)
    if len(roots) == 1 and not isinstance(gradients, (tuple, list)):
        return [gradients]
    if isinstance(gradients, (tuple, list)) and len(gradients) == len(roots):
        if len(roots) > 1 or gradients[0] is None or hasattr(gradients[0], "dtype"):
            return gradients
        return [gradients]
    if len(roots) == 1:
        return [gradients]
    raise ShapeError(
        "there must be one gradient for each output",
        operation="backward",
        expected=f"{len(roots)} gradients",
        found=f"{len(gradients)}" if isinstance(gradients, (tuple, list)) else type(gradients).__name__,
        remedy="pass a sequence of the outputs' length, with None for outputs of one element",
    )
