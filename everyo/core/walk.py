"""The walk: from the youngest node to the oldest, passing cotangents on."""

from __future__ import annotations

import contextlib
from _heapq import heapify, heappop, heappush, heapreplace  # heapq itself takes a millisecond of the import
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from everyo.core.cotangents import SMALL, Partial, Unsummed, summed
from everyo.core.device import Backend, backend_of
from everyo.core.dispatch import settle, wrap_output
from everyo.core.modes import current_mode, switched
from everyo.core.primitive import ALL, OUT, STATIC, Plan
from everyo.core.repair import holds_nan, may_repair, repair, telling, watch_over
from everyo.core.tape import FREED, Node
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced

_age = attrgetter("age")
_AS_IT_IS = contextlib.nullcontext()
USERS = ("custom", "checkpoint")  # families whose rules run code of the user's


def topological_order(roots: Iterable[Node], since: int = -1) -> list[Node]:
    """Return all nodes that `roots` were computed from, oldest first: parents before their children.

    What is older than `since` is left out.
    """
    found = list(roots)
    seen = set(found)
    for node in found:
        for parent in node.parents:
            if parent not in seen and parent.age >= since:
                seen.add(parent)
                found.append(parent)
    found.sort(key=_age)
    return found


def _sum(g: Any, other: Any) -> Any:
    """Return the sum of two cotangents; None is zero."""
    return g if other is None else other if g is None else g + other


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
    nested : bool, default False
        Others may differentiate what comes out: code of the user's, in hooks and rules, is recorded as the
        current mode says, and what it computes from captured tensors stays linked to them.
    tape : Interpreter, optional
        Whose nodes they are, where they are not the eager tape's.
    """

    def __init__(
        self,
        targets: set[Node] | None,
        retain: bool,
        create_graph: bool,
        nested: bool = False,
        tape: Any = None,
    ) -> None:
        self.targets, self.retain, self.create_graph, self.nested = targets, retain, create_graph, nested
        self.tape = tape
        self.pending: dict[Node, Any] = {}
        self.arrived: dict[Node, Any] = {}
        self.useful: set[Node] | None = None
        self.checking = current_mode().anomaly
        self.watch: Any = None

    def seed(self, node: Node, cotangent: Any) -> None:
        """Start from `node` with a cotangent; seeds of one node add up."""
        self.pending[node] = self.pending[node] + cotangent if node in self.pending else cotangent

    def on_the_way(self) -> set[Node]:
        """Return the nodes whose rules will run: with a path to a target, or all that are reached."""
        if self.targets is None:
            return set(topological_order(self.pending))
        found: set[Node] = set()
        oldest = min(map(_age, self.targets), default=-1)  # no path to a target leads through an older node
        for node in topological_order(self.pending, oldest):
            if not (self.targets.isdisjoint(node.parents) and found.isdisjoint(node.parents)):
                found.add(node)
        return found

    def run(self, backend: Backend, born: int = -1) -> dict[Node, Any]:
        """Walk; return the cotangents that arrived at the targets.

        At nodes that are not younger than `born` the walk stops; what reached them stays in `pending`.
        """
        if self.targets is not None:
            self.useful = useful = self.targets | self.on_the_way()
            self.pending = {node: g for node, g in self.pending.items() if node in useful}
        with watch_over(backend) as self.watch:
            if self.create_graph:
                with switched(grad=True):
                    self._walk(born)
            else:
                self._walk(born)  # on raw arrays, which nothing records; hooks see to themselves
        return self.arrived

    def _walk(self, born: int) -> None:
        """Pull back node by node, the youngest first, down to `born`.

        Every child of a node is younger, so the youngest node that waits has its whole cotangent. In a
        chain that is the one just reached: it goes on in `node` and `g`, and never waits in the heap.
        """
        pending, watch = self.pending, self.watch
        retain = self.retain or self.targets is not None  # then `_step` frees those whose rule ran, alone
        plain = not (self.create_graph or self.checking or self.targets is not None)
        waiting: list[tuple[int, Any]] = [(-node.age, node) for node in pending]
        waiting.append((-born, None))  # where to stop
        heapify(waiting)
        usual = next(map(type, pending.values()), None)
        if usual is not None and issubclass(usual, Partial):
            usual = None
        node: Any = None
        g: Any = None
        parents: Sequence[Node]
        cotangents: Any
        while True:
            if node is None:
                node = heappop(waiting)[1]
                if node is None:
                    return
                g = pending.pop(node)
                youngest = -waiting[0][0]
            if g.__class__ is not usual and isinstance(g, Partial):
                g = g.settle()
            parents = node.parents
            if g is None:  # no rule gave a cotangent
                cotangents = (None,) * len(parents)
            elif plain and parents and node.extras is None:
                plan, saved = node.plan, node.saved
                if saved is FREED:
                    node.require_saved()
                if plan.direct is None:
                    cotangents = plan.pull(g, saved, node.params)
                else:
                    cotangent = plan.direct(g, saved[0]) if saved else plan.direct(g)
                    parent = parents[0]
                    if parent.age > youngest and not watch.tripped and node.restore is None:
                        if not retain:
                            node.saved = FREED
                        node, g = parent, cotangent
                        saved = cotangent = None
                        continue
                    cotangents = (cotangent,)
                if watch.tripped or plan.silent:
                    cotangents = self._check(node, plan, cotangents, g, saved)
                if node.restore is not None:
                    cotangents = restore(cotangents, node.restore, True)
                saved = None  # let go before the next rule allocates
            else:
                parents, cotangents = self._step(node, g)
            if not retain:
                node.saved = FREED
            node = g = None
            i = 0
            for cotangent in cotangents:
                parent = parents[i]
                i += 1  # noqa: SIM113 - enumerate costs more than the rest
                if node is None and parent.age > youngest:
                    node, g = parent, cotangent
                elif parent is node:
                    g = _sum(g, cotangent)
                elif parent in pending:
                    held = pending[parent]
                    if held is None or cotangent is None:
                        held = _sum(held, cotangent)
                    else:
                        held = held + cotangent
                    pending[parent] = held
                    held = None
                else:
                    pending[parent] = cotangent
                    heappush(waiting, (-parent.age, parent))
                    youngest = -waiting[0][0]
            cotangents = cotangent = None
            if node is not None and node.age < youngest:
                pending[node] = g
                node = heapreplace(waiting, (-node.age, node))[1]
                g = pending.pop(node)
                youngest = -waiting[0][0]

    def _step(self, node: Node, g: Any) -> tuple[Sequence[Node], Sequence[Any]]:
        """Return whom cotangents go to and which, for a node that needs more than its rule run."""
        extras, parents, undo = node.extras, node.parents, node.restore
        if extras is not None and extras.on_gradient:
            from everyo.core.hooks import run_gradient_hooks

            with self._users_mode():
                g = run_gradient_hooks(extras, g, self.create_graph)
        if extras is not None and extras.retained is not None:
            self.arrived[node] = g
        if self.useful is None:
            if not parents:
                self.arrived[node] = g
        else:
            if node in self.targets:  # type: ignore[operator]
                self.arrived[node] = g
            if not self.useful.issuperset(parents):
                parents = tuple(p for p in parents if p in self.useful)
        if not parents:
            return (), ()
        plan = node.plan
        node.require_saved()
        if len(parents) < len(node.parents):
            plan, undo = _narrowed(node, parents)
        saved = residual_tensors(node, self.tape) if self.create_graph else node.saved
        if extras is not None:
            if extras.checksums is not None:
                from everyo.core.anomaly import check_unchanged

                check_unchanged(node)
            if extras.before:
                from everyo.core.hooks import run_node_hooks

                with self._users_mode():
                    (g,) = run_node_hooks(extras.before, self.create_graph, (g,))
                if g is None:
                    return (), ()
        self.watch.tripped = False
        if plan.primitive.family in USERS:
            with self._users_mode():
                cotangents = plan.pull(g, saved, node.params)
        else:
            cotangents = plan.pull(g, saved, node.params)
        if self.watch.tripped or plan.silent:
            cotangents = self._check(node, plan, cotangents, g, saved)
        if undo is not None:
            cotangents = restore(cotangents, undo)
        if extras is not None and extras.after:
            from everyo.core.hooks import run_node_hooks

            with self._users_mode():
                cotangents = run_node_hooks(extras.after, self.create_graph, tuple(cotangents), (g,))
        if self.checking:
            from everyo.core.anomaly import check_finite

            check_finite(node, cotangents)
        if self.targets is not None and not self.retain:
            node.saved = FREED
        return parents, cotangents

    def _users_mode(self) -> contextlib.AbstractContextManager[Any]:
        """Return the mode in which code of the user's runs."""
        return _AS_IT_IS if self.nested else switched(grad=self.create_graph)

    def _check(
        self, node: Node, plan: Plan, cotangents: Sequence[Any], g: Any, saved: Sequence[Any]
    ) -> Sequence[Any]:
        """Repair the cotangents of an elementwise rule that made a NaN, which silent ones do not report."""
        if not (self.watch.tripped or holds_nan(cotangents)):
            return cotangents
        if may_repair(plan.primitive, g):
            known = telling(plan.primitive, saved, [origin == OUT for origin in plan.origins])
            pull, params = plan.pull, node.params
            cotangents = repair(
                lambda g, saved: pull(g, saved, params), cotangents, g, saved, known, plan.silent
            )
        self.watch.tripped = False
        return cotangents


def _narrowed(node: Node, parents: Sequence[Node]) -> tuple[Plan, Any]:
    """Return the plan and the restorations for some of the parents of `node` alone."""
    keep = [k for k, parent in enumerate(node.parents) if parent in parents]
    plan = node.plan
    recorded = sum(1 << i for i in plan.needed)
    narrowed = plan.primitive.plan(recorded, plan.count, sum(1 << plan.needed[k] for k in keep))
    return narrowed, None if node.restore is None else tuple(node.restore[k] for k in keep)


def restore(cotangents: Sequence[Any], layouts: Sequence[Any], later: bool = False) -> list[Any]:
    """Undo broadcasting and promotion: the one place where cotangents are summed back.

    `later` leaves the sum of a small array to the end: several of them are added up first.
    """
    restored = list(cotangents)
    i = 0
    for layout in layouts:
        if layout is not None:
            c = restored[i]
            if c is not None:
                shape, dtype = layout
                if c.shape != shape or c.dtype != dtype:
                    restored[i] = Unsummed(c, layout) if later and c.size <= SMALL else summed(c, layout)
        i += 1  # noqa: SIM113 - zip and enumerate cost more than the rest
    return restored


def pull_back(node: Node, cotangent: Any) -> Sequence[Any]:
    """Return the raw cotangents of the parents of `node` for a raw cotangent of its output."""
    node.require_saved()
    cotangents = node.plan.pull(cotangent, node.saved, node.params)
    return cotangents if node.restore is None else restore(cotangents, node.restore)


def residual_tensors(node: Node, tape: Any = None) -> tuple[Any, ...]:
    """Return what `node`, of the eager tape or of `tape`, saved as tensors linked to the graph again."""
    if not node.saved:
        return ()
    parent_of = dict(zip(node.plan.needed, node.parents))
    linked: list[Any] = []
    for value, origin in zip(node.saved, node.plan.origins):
        if origin == OUT:
            linked.append(_relink(value, node, tape))
        elif origin == ALL:
            first = node.plan.primitive.leading
            linked.append(tuple(_relink(v, parent_of.get(i), tape) for i, v in enumerate(value, first)))
        elif origin == STATIC:
            linked.append(value)
        else:
            linked.append(_relink(value, parent_of.get(origin), tape))
    return tuple(linked)


def _relink(value: Any, node: Node | None, tape: Any) -> Any:
    if tape is not None:
        return tape.linked(value, node)
    if isinstance(value, tuple):
        return tuple(None if v is None else wrap_output(_written(v), node, i) for i, v in enumerate(value))
    value = _written(value)
    if backend_of(value) is None and not isinstance(value, Traced):
        return value
    tensor = wrap(settle(value))
    tensor.grad_node = node
    return tensor


def _written(value: Any) -> Any:
    """Return what a node of the eager tape saved; in a traced function a tensor stands for an array."""
    if isinstance(value, Tensor) and value.level and value.data.interpreter.writes_outside:
        return value.data
    return value
