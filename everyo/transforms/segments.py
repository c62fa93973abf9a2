"""Segments of a loop that the tape keeps as one node, which runs them again when it is pulled back.

A segment's first run is recorded only to learn which older nodes it leads to; then its graph is dropped
and one node in its place links its results to those. Whatever levels the values have, a tape finds its
own tensors inside them, so the same node works on the eager tape, on a nested one and under `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from everyo.core import traced
from everyo.core.dispatch import note
from everyo.core.modes import current_mode, is_grad_enabled
from everyo.core.primitive import OUT, STATIC
from everyo.core.tape import Node, OutputNode, next_age
from everyo.core.tensor import Tensor
from everyo.core.traced import Interpreter, Traced
from everyo.core.walk import Walk, recording
from everyo.errors import ArgumentError, GraphStateError
from everyo.ops.replay import Draws
from everyo.transforms.forward import Dual

Leaves = list[Tensor]
Run = Callable[[Leaves], Leaves]


def segment(run: Run, leaves: Leaves) -> Leaves:
    """Return ``run(leaves)``, recorded as nodes that keep `leaves` and nothing of the inside.

    `run` must be deterministic, but for what it draws from generators: the second run draws the same. One
    that gives other values raises GraphStateError.
    """
    if not is_grad_enabled():
        return run(leaves)
    born = next_age()
    draws = Draws()
    with draws.noted():
        results = run(leaves)
    values = [_array(x) for x in results]
    interpreters = {i for x in (*leaves, *results) for i in _interpreters(x)}
    depth = traced.depth()
    for tape, tensors in _recorded(results, born).items():
        roots = [t.grad_node for t in tensors]
        plan = _Rerun(tape, _inside(roots, born)[1], depth, interpreters)
        node = Node()
        node.plan = plan  # type: ignore[assignment]
        node.parents, node.params = tuple(plan.parents), {}
        node.saved = (_Payload(run, leaves, values, draws), tensors[0].data)
        node.age, node.restore, node.extras = next_age(), None, None
        if current_mode().anomaly:
            note(node)
        for i, t in enumerate(tensors):
            t.grad_node = OutputNode(node, i)
    return results


def checked_interval(every: int) -> int:
    """Return `checkpoint_every`; ArgumentError unless it is a positive int."""
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise ArgumentError(
            "checkpoint_every is no positive int",
            operation="while_loop",
            expected="1 or more steps between the states that are kept",
            found=repr(every),
        )
    return every


class _Payload:
    """What a segment's node keeps: how to run it, from where, and what came out."""

    __slots__ = ("draws", "leaves", "run", "values")

    def __init__(self, run: Run, leaves: Leaves, values: list[Any], draws: Draws) -> None:
        self.run, self.leaves, self.values, self.draws = run, leaves, values, draws


class _Rerun:
    """The plan of a segment's node, and the primitive that its readers ask for a name."""

    name = family = "checkpoint"
    save = direct = None
    origins = (STATIC, OUT)  # how to run, and a result: a walk that is recorded makes it a tensor
    count = 0

    def __init__(
        self, tape: Interpreter | None, parents: list[Node], depth: int, interpreters: set[Interpreter]
    ) -> None:
        self.tape, self.parents, self.depth, self.interpreters = tape, parents, depth, interpreters
        self.needed = tuple(range(len(parents)))

    @property
    def primitive(self) -> _Rerun:
        """Itself: an attribute would be a cycle that keeps the parents alive."""
        return self

    def plan(self, recorded: int, count: int, needed: int) -> _Rerun:
        """Return the plan for some of the parents alone."""
        chosen = [p for i, p in enumerate(self.parents) if needed >> i & 1]
        return _Rerun(self.tape, chosen, self.depth, self.interpreters)

    def pull(self, g: dict[int, Any], saved: tuple[Any, ...], params: dict[str, Any]) -> list[Any]:
        """Run the segment again and walk through what that recorded, down to the parents."""
        born = next_age()
        payload = saved[0]
        with recording(True), _revived(self.interpreters, self.depth), payload.draws.again():
            results = payload.run(payload.leaves)
        if not all(map(_same, map(_array, results), payload.values)):
            raise GraphStateError(
                "a checkpointed segment gave other values when it ran again",
                operation="checkpoint",
                expected="a deterministic function that does not change what it captures",
                found="values that differ from the first run",
                remedy="update parameters after the backward pass, and draw from an eo.random.Generator",
            )
        outputs = _recorded(results, born).get(self.tape, [])
        create_graph = isinstance(saved[1], Tensor)
        walk = Walk(None, create_graph, create_graph)
        for i, cotangent in g.items():
            walk.seed(outputs[i].grad_node, cotangent)  # type: ignore[arg-type]
        order, _ = _inside([outputs[i].grad_node for i in g], born)
        backend = results[0].backend
        with backend.quiet() as walk.watch:
            if create_graph:
                with recording(True):
                    walk._walk(order)
            else:
                walk._walk(order)
        return [walk.pending.get(parent) for parent in self.parents]


@contextmanager
def _revived(interpreters: set[Interpreter], depth: int) -> Iterator[None]:
    """Let values of transformations that have ended compute once more, as in the first run."""
    ended = [i for i in interpreters if not i.active]
    token = traced._depth.set(max(depth, traced.depth()))
    for interpreter in ended:
        interpreter.active = True
    try:
        yield
    finally:
        for interpreter in ended:
            interpreter.active = False
        traced._depth.reset(token)


def _parts(x: Any) -> Iterator[Tensor]:
    """Yield a tensor and the tensors of lower levels inside it."""
    if isinstance(x, Tensor):
        yield x
        data = x.data
        if isinstance(data, Dual):
            yield from _parts(data.primal)
            yield from _parts(data.tangent)
        elif isinstance(data, Traced):
            yield from _parts(data.below)


def _interpreters(x: Tensor) -> Iterator[Interpreter]:
    for part in _parts(x):
        if isinstance(part.data, Traced):
            yield part.data.interpreter


def _recorded(results: Leaves, born: int) -> dict[Interpreter | None, list[Tensor]]:
    """Return by tape (None: the eager one) the tensors inside `results` with nodes younger than `born`."""
    found: dict[Interpreter | None, dict[int, Tensor]] = {}
    for x in results:
        for part in _parts(x):
            node = part.grad_node
            if node is not None and node.age > born and not node.is_leaf:
                tape = part.data.interpreter if isinstance(part.data, Traced) else None
                found.setdefault(tape, {})[id(part)] = part
    return {tape: list(parts.values()) for tape, parts in found.items()}


def _inside(roots: Sequence[Any], born: int) -> tuple[list[Node], list[Node]]:
    """Return the nodes younger than `born` that `roots` lead to, oldest first, and the older ones beside."""
    inside: list[Node] = list(dict.fromkeys(roots))
    outside: dict[Node, None] = {}
    seen = set(inside)
    for node in inside:
        for parent in node.parents:
            if parent.age < born:
                outside[parent] = None
            elif parent not in seen:
                seen.add(parent)
                inside.append(parent)
    inside.sort(key=attrgetter("age"))
    return inside, list(outside)


def _array(x: Any) -> Any:
    """Return the array at the bottom of a value."""
    while isinstance(x, (Tensor, Traced)):
        x = x.data if isinstance(x, Tensor) else x.below
    return x


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal; a NaN equals a NaN."""
    return a is b or bool((a.shape == b.shape) and ((a == b) | ((a != a) & (b != b))).all())
