"""The walk: from the youngest node to the oldest, passing cotangents on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from everyo.core import anomaly
from everyo.core.cotangents import Partial, Several
from everyo.core.device import Backend, backend_of
from everyo.core.dispatch import settle, wrap, wrap_output
from everyo.core.modes import Mode, ModeSwitch, current_mode
from everyo.core.primitive import ALL, OUT, STATIC, Plan
from everyo.core.registry import op
from everyo.core.tape import FREED, Extras, Node
from everyo.core.tensor import Tensor
from everyo.errors import DTypeError, EveryOError, ShapeError, describe

_age = attrgetter("age")


def topological_order(roots: Iterable[Node]) -> list[Node]:
    """Return all nodes that `roots` were computed from, oldest first: parents before their children."""
    found = list(roots)
    seen = set(found)
    for node in found:
        for parent in node.parents:
            if parent not in seen:
                seen.add(parent)
                found.append(parent)
    found.sort(key=_age)
    return found


class recording(ModeSwitch):
    """Switch recording on or off for the walk's own purposes, whatever the user's mode says."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def change(self, mode: Mode) -> Mode:
        return mode.replace(grad=self.on)


class Walk:
    """One backward pass.

    Parameters
    ----------
    targets : set of Node or None
        Follow only the paths to these nodes and return their cotangents; None stands for all leaves
        and all nodes that retain their gradient.
    retain : bool
        Keep the residuals for another pass.
    create_graph : bool
        Run the rules on tensors, so that the pass itself is recorded.
    """

    def __init__(self, targets: set[Node] | None, retain: bool, create_graph: bool) -> None:
        self.targets, self.retain, self.create_graph = targets, retain, create_graph
        self.pending: dict[Node, Any] = {}
        self.arrived: dict[Node, Any] = {}
        self.useful: set[Node] | None = None
        self.checking = current_mode().anomaly
        self.watch: Any = None

    def seed(self, node: Node, cotangent: Any) -> None:
        """Start from `node` with a cotangent; seeds of one node add up."""
        self.pending[node] = self.pending[node] + cotangent if node in self.pending else cotangent

    def run(self, backend: Backend) -> dict[Node, Any]:
        """Walk; return the cotangents that arrived at the targets."""
        order = topological_order(self.pending)
        if self.targets is not None:
            self.useful = set(self.targets)
            for node in order:
                if not self.useful.isdisjoint(node.parents):
                    self.useful.add(node)
            order = [node for node in order if node in self.useful]
        with backend.quiet() as self.watch:
            if self.create_graph:
                with recording(True):
                    self._walk(order)
            else:
                self._walk(order)  # on raw arrays, which nothing records; hooks see to themselves
        return self.arrived

    def _walk(self, order: list[Node]) -> None:
        pending, watch = self.pending, self.watch
        retain = self.retain or self.targets is not None  # then `_step` frees those whose rule ran, alone
        plain = not (self.create_graph or self.checking or self.targets is not None)
        parents: Sequence[Node]
        g: Any
        saved: Any
        cotangents: Any
        while order:
            node = order.pop()
            g = pending.pop(node, None)
            if g is None:
                node.saved = node.saved if retain else FREED
                continue
            if isinstance(g, Partial):
                g = g.settle()
            parents = node.parents
            if plain and parents and node.extras is None:
                saved = node.saved
                if saved is FREED:
                    node.require_saved()
                plan = node.plan
                if (
                    plan.direct is not None and node.restore is None
                ):  # most often: one parent, nothing to undo
                    cotangent = plan.direct(g, *saved)
                    if watch.tripped:
                        (cotangent,) = self._check(plan, (cotangent,), g, saved)
                    g = saved = None  # let go before the next rule allocates
                    if not retain:
                        node.saved = FREED
                    if cotangent is not None:
                        (parent,) = parents
                        pending[parent] = pending[parent] + cotangent if parent in pending else cotangent
                        cotangent = None
                    continue
                cotangents = plan.pull(g, saved, node.params)
                if watch.tripped:
                    cotangents = self._check(plan, cotangents, g, saved)
                if node.restore is not None:
                    cotangents = restore(cotangents, node.restore)
            else:
                parents, cotangents = self._step(node, g)
            g = saved = None
            if not retain:
                node.saved = FREED
            for parent, cotangent in zip(parents, cotangents):
                if cotangent is not None:
                    pending[parent] = pending[parent] + cotangent if parent in pending else cotangent
            cotangents = cotangent = None

    def _step(self, node: Node, g: Any) -> tuple[Sequence[Node], Sequence[Any]]:
        """Return whom cotangents go to and which, for a node that needs more than its rule run."""
        extras, parents, plan, undo = node.extras, node.parents, getattr(node, "plan", None), node.restore
        if extras is not None and extras.on_gradient:
            g = run_gradient_hooks(extras, g, self.create_graph)
        if self.useful is None:
            if not parents or (extras is not None and extras.retained is not None):
                self.arrived[node] = g
        else:
            if node in self.targets:  # type: ignore[operator]
                self.arrived[node] = g
            parents = tuple(p for p in parents if p in self.useful)
        if not parents or plan is None:
            return (), ()
        node.require_saved()
        if len(parents) < len(node.parents):
            plan, undo = _narrowed(node, parents)
        saved = residual_tensors(node) if self.create_graph else node.saved
        if extras is not None:
            if extras.checksums is not None:
                anomaly.check_unchanged(node)
            if extras.before:
                (g,) = run_node_hooks(extras.before, self.create_graph, (g,))
                if g is None:
                    return (), ()
        self.watch.tripped = False
        cotangents = plan.pull(g, saved, node.params)
        if self.watch.tripped:
            cotangents = self._check(plan, cotangents, g, saved)
        if undo is not None:
            cotangents = restore(cotangents, undo)
        if extras is not None and extras.after:
            cotangents = run_node_hooks(extras.after, self.create_graph, tuple(cotangents), (g,))
        if self.checking:
            anomaly.check_finite(node, cotangents)
        if self.targets is not None and not self.retain:
            node.saved = FREED
        return parents, cotangents

    def _check(self, plan: Plan, cotangents: Sequence[Any], g: Any, saved: Sequence[Any]) -> Sequence[Any]:
        """Repair the cotangents of an elementwise rule that made a NaN."""
        self.watch.tripped = False
        return repair(cotangents, g, saved) if plan.primitive.family == "elementwise" else cotangents


def _narrowed(node: Node, parents: Sequence[Node]) -> tuple[Plan, Any]:
    """Return the plan and the restorations for some of the parents of `node` alone."""
    keep = [k for k, parent in enumerate(node.parents) if parent in parents]
    plan = node.plan
    recorded = sum(1 << i for i in plan.needed)
    narrowed = plan.primitive.plan(recorded, plan.count, sum(1 << plan.needed[k] for k in keep))
    return narrowed, None if node.restore is None else tuple(node.restore[k] for k in keep)


def restore(cotangents: Sequence[Any], inputs: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """Undo broadcasting and promotion: the one place where cotangents are summed back."""
    return [
        c if c is None or (c.shape == shape and c.dtype == dtype) else op.sum_to(c, shape=shape, dtype=dtype)
        for c, (shape, dtype) in zip(cotangents, inputs, strict=True)
    ]


def repair(cotangents: Sequence[Any], g: Any, saved: Sequence[Any]) -> list[Any]:
    """Set the cotangent to 0 where the incoming one is 0: an infinite slope times nothing is nothing.

    A residual that is itself NaN keeps its NaN. Called only when an elementwise rule made a NaN. The
    convention can hide an indeterminate form: ``sqrt(x) * sqrt(x)`` at 0 sends a cotangent of 0 into an
    infinite slope and gets the gradient 0, where the limit is 1.
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
    return cotangents if node.restore is None else restore(cotangents, node.restore)


def residual_tensors(node: Node) -> tuple[Any, ...]:
    """Return what `node` saved as tensors that are linked to the graph again."""
    parent_of = dict(zip(node.plan.needed, node.parents, strict=True))
    linked: list[Any] = []
    for value, origin in zip(node.saved, node.plan.origins, strict=True):
        if origin == OUT:
            linked.append(_relink(value, node))
        elif origin == ALL:
            first = node.plan.primitive.leading
            linked.append(tuple(_relink(v, parent_of.get(i)) for i, v in enumerate(value, first)))
        elif origin == STATIC:
            linked.append(value)
        else:
            linked.append(_relink(value, parent_of.get(origin)))
    return tuple(linked)


def _relink(value: Any, node: Node | None) -> Any:
    if isinstance(value, tuple):
        return tuple(None if v is None else wrap_output(v, node, i) for i, v in enumerate(value))
    if backend_of(value) is None:
        return value
    tensor = wrap(value)
    tensor.grad_node = node
    return tensor


def run_gradient_hooks(extras: Extras, g: Any, create_graph: bool) -> Any:
    """Pass a complete cotangent through the hooks of its tensor, as the gradient users know."""
    complex_ = g.dtype.kind == "c"
    for hook in tuple(extras.on_gradient.values()):
        shown = op.conj(g) if complex_ else g
        with recording(create_graph):
            result = hook(shown if isinstance(shown, Tensor) else wrap(settle(shown)))
        if result is None:
            continue
        _require_alike(result, g, "a gradient hook")
        g = result if create_graph else result.data
        g = op.conj(g) if complex_ else g
    return g


def run_node_hooks(hooks: dict[int, Any], create_graph: bool, values: Any, *context: Any) -> Any:
    """Pass cotangents through the hooks of a node; a tuple that a hook returns replaces them."""
    for hook in tuple(hooks.values()):
        with recording(create_graph):
            result = hook(*(tuple(_shown(v) for v in items) for items in (values, *context)))
        if result is None:
            continue
        if not isinstance(result, tuple) or len(result) != len(values):
            raise ShapeError(
                "a node hook returned something else than one cotangent for each that it was given",
                operation="hook",
                expected=f"None or a tuple of {len(values)}",
                found=f"{len(result)} of them" if isinstance(result, tuple) else type(result).__name__,
                remedy="return a tuple of the same length",
            )
        values = tuple(_taken(new, old, create_graph) for new, old in zip(result, values, strict=True))
    return values


def _shown(value: Any) -> Any:
    """Return a cotangent as hooks see it: a tensor, or for several results a dict of such by position."""
    value = value.settle() if isinstance(value, Partial) else value
    if isinstance(value, dict):
        return {position: _shown(v) for position, v in value.items()}
    return value if value is None or isinstance(value, Tensor) else wrap(settle(value))


def _taken(new: Any, old: Any, create_graph: bool) -> Any:
    """Return what a hook gave in place of the cotangent `old` as the walk passes it on."""
    old, part = (old.settle(), type(old)) if isinstance(old, Partial) else (old, None)
    if isinstance(old, dict) and isinstance(new, dict):
        taken = {i: _taken(v, old.get(i), create_graph) for i, v in new.items() if v is not None}
        return Several(taken) if part is Several else taken
    if new is None:
        return None
    _require_alike(new, old, "a node hook")
    return new if create_graph else new.data


def _require_alike(new: Any, old: Any, source: str) -> None:
    """Raise unless what a hook returned is a tensor that can stand for the cotangent `old`."""
    kind: type[EveryOError] | None = None
    if not isinstance(new, Tensor) or isinstance(old, dict) or (old is not None and new.dtype != old.dtype):
        kind = DTypeError
    elif old is not None and tuple(new.shape) != tuple(old.shape):
        kind = ShapeError
    if kind is not None:
        several = "a dict of tensors by result position" if isinstance(old, dict) else "a tensor"
        raise kind(
            f"{source} returned something that is no gradient",
            operation="hook",
            expected=f"None or {several}" + (f": {describe(old)}" if hasattr(old, "dtype") else ""),
            found=describe(new),
            remedy="return tensors of the shape and dtype that the hook was given",
        )
