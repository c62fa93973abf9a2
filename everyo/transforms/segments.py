"""Segments of a loop that the tape keeps as one node, which runs them again when it is pulled back.

A segment's first run is recorded only to learn which older nodes it leads to; then its graph is dropped
and one node in its place links its results to those. Whatever levels the values have, a tape finds its
own tensors inside them, so the same node works on the eager tape, on a nested one and under `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from everyo.core import traced
from everyo.core.copying import same_value
from everyo.core.dispatch import note
from everyo.core.modes import current_mode, switched
from everyo.core.ownership import as_changeable
from everyo.core.primitive import OUT, STATIC
from everyo.core.tape import LeafNode, Node, OutputNode, next_age
from everyo.core.tensor import Tensor
from everyo.core.traced import Changes, Interpreter, Traced, innermost
from everyo.core.walk import Walk
from everyo.errors import ArgumentError, GraphStateError
from everyo.ops.replay import Draws
from everyo.transforms.forward import Dual

Leaves = list[Tensor]
Run = Callable[[Leaves], Leaves]
Place = tuple[int, int]  # a result, and a part of it


def segment(run: Run, leaves: Leaves) -> Leaves:
    """Return ``run(leaves)``, recorded as nodes that keep `leaves` and nothing of the inside.

    `run` must be deterministic, but for what it draws from generators: the second run draws the same. One
    that gives other values raises GraphStateError. The tensors it is given are copies, and stay as they are.
    """
    mode = current_mode()
    if not mode.grad and max(mode.held, 0) >= traced.depth():
        return run([as_changeable(same_value(x), x) for x in leaves])
    payload = _Payload(run, leaves)
    born = next_age()
    with payload.draws.noted():
        results = run(payload.leaves)
    payload.values = [innermost(x) for x in results]
    around = _Surroundings((*leaves, *results))
    for tape, parts in _recorded(results, born).items():
        plan = _Rerun(tape, list(parts), _outside([t.grad_node for t in parts.values()], born), around)
        payload.note(plan.parents)
        node = Node()
        node.plan = plan  # type: ignore[assignment]
        node.parents, node.params = tuple(plan.parents), {}
        node.saved = (payload, next(iter(parts.values())).data)
        node.age, node.restore, node.extras = next_age(), None, None
        node.ensure_extras()  # so that a walk takes the way on which it sets the mode for user code
        if mode.anomaly:
            note(node)
        for i, t in enumerate(parts.values()):
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
    """What a segment's nodes keep: how to run it, from where, what it read and what came out."""

    __slots__ = ("draws", "leaves", "read", "run", "values")

    def __init__(self, run: Run, leaves: Leaves) -> None:
        self.run, self.draws = run, Draws()
        self.leaves = [as_changeable(same_value(x), x) for x in leaves]
        self.read: dict[LeafNode, Any] = {}
        self.values: list[Any] = []

    def note(self, parents: Sequence[Node]) -> None:
        """Remember the values of leaves that the run has captured."""
        given = {x.grad_node for x in self.leaves}
        for node in parents:
            leaf = node.leaf() if isinstance(node, LeafNode) and node not in given else None
            if leaf is not None:
                self.read[node] = leaf.data  # type: ignore[index]

    def unchanged(self, results: Leaves) -> bool:
        """Whether a second run has read and computed the same values."""
        for node, data in self.read.items():
            leaf = node.leaf()
            if leaf is not None and not _same(innermost(leaf), innermost(data)):
                return False
        return all(map(_same, map(innermost, results), self.values))


class _Surroundings:
    """The levels, batches and mode of a segment's first run, in which it can run again."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.interpreters = {i for x in tensors for i in _interpreters(x)}
        self.depth, self.batches = traced.depth(), traced.batches.get()
        mode = current_mode()
        self.grad, self.held, self.differentiated = mode.grad, mode.held, mode.changes is not None

    @contextmanager
    def again(self) -> Iterator[None]:
        """Let values of transformations that have ended compute once more."""
        ended = [i for i in self.interpreters if not i.active]
        depth = traced._depth.set(max(self.depth, traced.depth()))
        batches = traced.batches.set(self.batches)
        for interpreter in ended:
            interpreter.active = True
        # What the function changed in place was judged in the first run.
        changes = Changes(next_age()) if self.differentiated else current_mode().changes
        try:
            with switched(grad=self.grad, held=self.held, changes=changes):
                yield
        finally:
            for interpreter in ended:
                interpreter.active = False
            traced.batches.reset(batches)
            traced._depth.reset(depth)


class _Rerun:
    """The plan of a segment's node, and the primitive that its readers ask for a name.

    `places` are those of the results that the node has, in order.
    """

    name = family = "checkpoint"
    save, direct, silent = None, None, False
    origins = (STATIC, OUT)  # how to run, and a result: a walk that is recorded makes it a tensor
    count = 0

    def __init__(
        self, tape: Interpreter | None, places: list[Place], parents: list[Node], around: _Surroundings
    ) -> None:
        self.tape, self.places, self.parents, self.around = tape, places, parents, around
        self.needed = tuple(range(len(parents)))

    @property
    def primitive(self) -> _Rerun:
        """Itself: an attribute would be a cycle that keeps the parents alive."""
        return self

    def plan(self, recorded: int, count: int, needed: int) -> _Rerun:
        """Return the plan for some of the parents alone."""
        chosen = [p for i, p in enumerate(self.parents) if needed >> i & 1]
        return _Rerun(self.tape, self.places, chosen, self.around)

    def pull(self, g: dict[int, Any], saved: tuple[Any, ...], params: dict[str, Any]) -> list[Any]:
        """Run the segment again and walk through what that recorded, down to the parents."""
        born = next_age()
        payload = saved[0]
        with self.around.again(), payload.draws.again():
            results = payload.run(payload.leaves)
        if not payload.unchanged(results):
            raise GraphStateError(
                "a checkpointed segment gave other values when it ran again",
                operation="checkpoint",
                expected="a deterministic function that does not change what it captures",
                found="values that differ from the first run",
                remedy="update parameters after the backward pass, and draw from an eo.random.Generator",
            )
        outputs = _recorded(results, born).get(self.tape, {})
        create_graph = isinstance(saved[1], Tensor)
        walk = Walk(None, create_graph, create_graph, nested=True, tape=self.tape)
        for i, cotangent in g.items():
            output = outputs.get(self.places[i])
            if output is not None:  # or else all that it was computed from is frozen by now
                walk.seed(output.grad_node, cotangent)  # type: ignore[arg-type]
        walk.run(results[0].backend, born)
        return [walk.pending.get(parent) for parent in self.parents]


def _parts(x: Any) -> Iterator[Tensor]:
    """Yield a tensor and the tensors of lower levels inside it."""
    if isinstance(x, Tensor):
        yield x
        data = x.data
        if isinstance(data, Dual):
            yield from _parts(data.tangent)
        if isinstance(data, Traced):
            yield from _parts(data.below)


def _interpreters(x: Tensor) -> Iterator[Interpreter]:
    for part in _parts(x):
        if isinstance(part.data, Traced):
            yield part.data.interpreter


def _recorded(results: Leaves, born: int) -> dict[Interpreter | None, dict[Place, Tensor]]:
    """Return by tape (None: the eager one) and place the parts of `results` that are younger than `born`."""
    found: dict[Interpreter | None, dict[Place, Tensor]] = {}
    known = set()
    for i, x in enumerate(results):
        for j, part in enumerate(_parts(x)):
            node = part.grad_node
            if node is not None and node.age > born and node.parents and id(part) not in known:
                known.add(id(part))
                tape = part.data.interpreter if isinstance(part.data, Traced) else None
                found.setdefault(tape, {})[i, j] = part
    return found


def _outside(roots: Sequence[Any], born: int) -> list[Node]:
    """Return the nodes older than `born` to which those younger, that `roots` lead to, lead next."""
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
    return list(outside)


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal; a NaN equals a NaN."""
    return a is b or bool((a.shape == b.shape) and ((a == b) | ((a != a) & (b != b))).all())
