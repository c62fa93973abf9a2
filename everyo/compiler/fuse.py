"""Fusion: which operations share a loop.

Operations are gathered into *clusters*. A cluster is one loop (or nest of loops) over an outer space, the
leading axes that all its members have in common; inside one turn of it, members with the same remaining
axes share an inner loop, a *nest*, or are written out element by element where those axes are short.
So a softmax over rows is one cluster: a loop over the rows, in it a loop for the maximum, one for the
sum and one for the quotient, on a row that stays in the cache.

What only the cluster itself reads never reaches memory, except as one row where a later nest reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from everyo.compiler.absorb import absorbed
from everyo.compiler.access import VIEWS, lead
from everyo.compiler.graph import Graph, Op, Value, transposed
from everyo.compiler.lowering.builder import SMALL

ROW = 1 << 13  # elements of a row that a cluster may keep between its nests
MATRIX = 1 << 16  # the same where matrix products take part
WRITTEN_OUT = 16  # elements up to which inner axes are written out instead of looped over
MANY = 64  # the same for cheap operations, if no single axis is as long as WRITTEN_OUT
CROWDED = 16  # members from which on a cluster takes only what shares an operand with it
WIDTH = 160  # members that a cluster may have before it is closed
LENGTH = 1500  # instructions, about, that its turns may be written out to: compilers take long for more
AGAIN = 8  # cheap operations that are done again rather than that their result is kept in memory
CHEAP = frozenset(
    {"add", "subtract", "multiply", "negative", "cast", "where", "abs", "maximum", "minimum", "logical_not",
     "isnan", "isinf", "isfinite", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
     "logical_and", "logical_or"}
)  # fmt: skip

COMPUTING = frozenset({"scatter", "accumulate", "place", "fold"})  # kernels that compute what they read
OPAQUE = frozenset(
    {"call", "require", "while", "while_back", "cond", "scan", "convolve", "convolve_weight", "pack"}
)  # kernels that read memory


class Member:
    """An operation in a cluster.

    Attributes
    ----------
    op : Op
        The operation.
    space : tuple of int
        The axes it loops over: those of the result, or of the operand of a reduction.
    sink : bool
        Whether it reduces over an axis of the outer space, so that its result is there only at the end.
    nest : int
        Its place in the order of inner loops of the cluster.
    """

    __slots__ = ("nest", "op", "sink", "space")

    def __init__(self, op: Op, sink: bool) -> None:
        self.op, self.space, self.sink, self.nest = op, space_of(op), sink, -1


class Cluster:
    """Operations that share an outer loop, or one operation that has a kernel of its own (`opaque`)."""

    def __init__(self, outer: tuple[int, ...], opaque: bool = False) -> None:
        self.outer, self.opaque = outer, opaque
        self.members: list[Member] = []
        self.reads: set[Value] = set()
        self.nests: list[list[Member]] = []
        self._counted: tuple[tuple[int, ...], int, int] = outer, 0, 0  # space, members, instructions

    def length(self, outer: tuple[int, ...]) -> int:
        """Return how many instructions, about, one turn of a loop over an outer space takes."""
        space, members, length = self._counted
        if space != outer:
            members = length = 0
        length += sum(_length(m.op, outer) for m in self.members[members:])  # what has joined since
        self._counted = outer, len(self.members), length
        return length

    def inner(self, member: Member) -> tuple[int, ...]:
        """Return the axes that a member loops over inside one turn of the outer loop."""
        return member.space[len(self.outer) :]


class Plan:
    """The clusters of a graph in order, and where each value is kept.

    Attributes
    ----------
    clusters : list of Cluster
        In an order in which each finds its operands computed.
    home : dict from Value to Cluster
        Where a value is computed; values that are in none are inputs, or are computed where they are read.
    stored : set of Value
        What is written to memory because another cluster, or the caller, reads it.
    rows : set of Value
        What is kept for a later nest of the same cluster.
    inside : dict from Op to Op
        Operations that are computed inside another one's kernel, which alone reads them.
    replaced : dict from Value to Value
        Results that are written over an input, with that input.
    panels : dict from Cluster to Panels
        Clusters that read a product panel by panel, with that product.
    """

    def __init__(self) -> None:
        self.clusters: list[Cluster] = []
        self.home: dict[Value, Cluster] = {}
        self.member: dict[Value, Member] = {}
        self.stored: set[Value] = set()
        self.rows: set[Value] = set()
        self.inside: dict[Op, Op] = {}
        self.replaced: dict[Value, Value] = {}
        self.panels: dict[Cluster, Any] = {}


def space_of(op: Op) -> tuple[int, ...]:
    """Return the axes that an operation loops over."""
    if op.name in ("reduce", "argreduce", "interleave"):
        return op.operands[0].shape
    return op.outs[0].shape if op.outs else ()


def is_small_dot(op: Op) -> bool:
    """Whether a matrix product is written out as sums of products."""
    a, b = op.operands[:2]
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    return k <= SMALL and (m <= SMALL or n <= SMALL or k <= 4 or op.out.dtype.kind != "f")


def is_written_out(op: Op, inner: tuple[int, ...]) -> bool:
    """Whether inner axes are written out element by element instead of looped over."""
    if is_batched_dot(op):
        return False
    size = math.prod(inner)
    cheap = op.name != "map" or op.params["fn"] in CHEAP
    return size <= WRITTEN_OUT or (cheap and size <= MANY and max(inner) < WRITTEN_OUT)


def is_batched_dot(op: Op) -> bool:
    """Whether each product of a batch is taken in turn, in the loop of what surrounds it."""
    if op.name != "dot" or is_small_dot(op):
        return False
    a, b = op.operands[:2]
    *batch, m, k = a.shape
    return math.prod(batch) > 1 and max(m * k, k * b.shape[-1], m * b.shape[-1]) <= MATRIX


def _is_number(value: Value) -> bool:
    """Whether a value is a constant, repeated or not, which says nothing about who belongs together."""
    op = value.op
    while op is not None and op.name in ("broadcast", "reshape"):
        op = op.operands[0].op
    return op is not None and op.name in ("constant", "iota")


def is_short(value: Value) -> bool:
    """Whether a value is small enough to be written out."""
    return value.size <= WRITTEN_OUT


def is_opaque(op: Op) -> bool:
    """Whether an operation has a kernel of its own."""
    if op.name == "dot":
        return not (is_small_dot(op) or is_batched_dot(op))
    return op.name in OPAQUE or op.name in COMPUTING


def reduced(op: Op) -> tuple[int, ...]:
    """Return the axes of its space that an operation reduces over."""
    if op.name == "reduce":
        return op.params["axes"]
    return (op.params["axis"],) if op.name == "argreduce" else ()


def fuse(graph: Graph) -> Plan:
    """Return the clusters of a graph of core operations."""
    plan = Plan()
    forced = _forced(graph) | _factors(graph)
    position: dict[Cluster, int] = {}
    plan.inside = absorbed(graph, forced)
    for op in graph.ops:
        if op.name == "constant" or op in plan.inside or (op.name == "iota" and op.out not in forced):
            continue
        if is_opaque(op):
            cluster = Cluster((), opaque=True)
            member = Member(op, True)
        elif op.name in VIEWS and op.out not in forced:
            continue
        elif op.name == "concat" and op.params["axis"] == 0 and not is_short(op.out):
            cluster, member = Cluster((), opaque=True), Member(op, True)
        else:
            cluster, member = _place(plan, op, position)
        if cluster not in position:
            position[cluster] = len(plan.clusters)
            plan.clusters.append(cluster)
        cluster.members.append(member)
        cluster.reads.update(v for v, _ in sources(op) if not _is_number(v))
        for value in op.outs:
            plan.home[value], plan.member[value] = cluster, member
    _decide_storage(plan, graph)
    for cluster in plan.clusters:
        if not cluster.opaque:
            _nest(plan, cluster)
    return plan


def _forced(graph: Graph) -> set[Value]:
    """Return the views that must be in memory: outputs, and operands of kernels of their own."""
    forced = set(graph.outputs)
    for op in graph.ops:
        if is_opaque(op) and op.name not in COMPUTING:
            forced.update(buffer_value(op, i) for i, v in enumerate(op.inputs) if v is not None)
    return forced


def _factors(graph: Graph) -> set[Value]:
    """Return the factors of batched products, which must be in memory, but may be so for a turn only."""
    return {buffer_value(op, i) for op in graph.ops if is_batched_dot(op) for i in (0, 1)}


def buffer_value(op: Op, position: int) -> Value:
    """Return the value whose memory an opaque operation reads: what a mere change of shape views."""
    value = op.inputs[position]
    assert value is not None
    if is_transposed(op, position):
        assert value.op is not None
        value = value.op.operands[0]
    while value.op is not None and value.op.name == "reshape":
        value = value.op.operands[0]
    return value


def is_transposed(op: Op, position: int) -> bool:
    """Whether an operand is a factor of a product, and the transpose of what lies in memory."""
    value = op.inputs[position]
    return op.name in ("dot", "pack") and position < 2 and value is not None and transposed(value) is not None


def sources(op: Op) -> Iterator[tuple[Value, int]]:
    """Yield what an operation reads, through views, with the count of leading axes it has in common.

    The count refers to the operation's own space.
    """
    yield from _sources_of(op, len(space_of(op)))


def _sources_of(op: Op, shared: int) -> Iterator[tuple[Value, int]]:
    for i, value in enumerate(op.operands):
        if op.name in VIEWS:
            common = min(shared, lead(op, i))
        elif op.name == "dot":
            common = min(shared, len(op.out.shape) - 2 + (i == 0 and is_small_dot(op)))
        else:
            common = shared
        yield from through(value, common)


def through(value: Value, common: int) -> Iterator[tuple[Value, int]]:
    """Yield the value, or what the view that it is reads."""
    yield value, common
    if value.op is not None and value.op.name in VIEWS:
        yield from _sources_of(value.op, common)


def _place(plan: Plan, op: Op, position: dict[Cluster, int]) -> tuple[Cluster, Member]:
    """Return the cluster that an operation joins, or a new one, and the operation as its member."""
    found = [(plan.home[v], plan.member[v], n) for v, n in sources(op) if v in plan.home]
    first = max((position[c] for c, _, _ in found), default=0)
    space, axes = space_of(op), reduced(op)
    candidates = plan.clusters[first:]
    for cluster in reversed(candidates) if space else candidates:  # numbers early, as loops wait for them
        inside = [(m, n) for c, m, n in found if c is cluster]
        outer = _joined(cluster, op, inside)
        if outer is not None:
            cluster.outer = outer
            return cluster, Member(op, _sinks(op, outer))
    outer = space[: min(axes)] if axes and (min(axes) > 0 or op.name == "argreduce") else space
    if is_batched_dot(op):
        outer = space[:-2]
    return Cluster(outer), Member(op, _sinks(op, outer))


def _sinks(op: Op, outer: tuple[int, ...]) -> bool:
    axes = reduced(op)
    return bool(axes) and min(axes) < len(outer)


def _joined(cluster: Cluster, op: Op, inside: list[tuple[Member, int]]) -> tuple[int, ...] | None:
    """Return the outer space of a cluster with one more operation; None if they do not fit together."""
    if cluster.opaque or len(cluster.members) >= WIDTH:
        return None
    if len(cluster.members) >= CROWDED and not inside and cluster.reads.isdisjoint(v for v, _ in sources(op)):
        return None  # nothing in common but the shape
    space, axes = space_of(op), reduced(op)
    outer = cluster.outer
    inner = min(axes) if axes else 0
    if (inner or op.name == "argreduce") and space[:inner] == outer[:inner]:
        outer = outer[:inner]
    if op.name == "argreduce" and _sinks(op, outer):
        return None
    batched = is_batched_dot(op)
    outer = _common(outer, space[:-2] if batched else space)
    for member, shared in inside:
        if member.sink:
            return None
        outer = outer[: min(shared, len(outer))]
    if outer != cluster.outer and any(_sinks(m.op, outer) != m.sink for m in cluster.members):
        return None
    if cluster.length(outer) + _length(op, outer) > LENGTH:
        return None
    if not outer:
        whole = not space and not cluster.outer
        tiny = math.prod(space) <= WRITTEN_OUT and all(
            math.prod(m.space) <= WRITTEN_OUT for m in cluster.members
        )
        return () if (whole or tiny) and not any(m.sink for m in cluster.members) else None
    if outer != cluster.outer or len(outer) < len(space):
        rows = [math.prod(s[len(outer) :]) for s in (space, *(m.space for m in cluster.members))]
        if op.name == "reduce" and all(m.op.name == "map" and m.space == space for m in cluster.members):
            rows = [math.prod(op.out.shape[len(outer) :])]  # what is reduced is nowhere kept
        limit = MATRIX if batched or any(is_batched_dot(m.op) for m in cluster.members) else ROW
        if max(rows) > limit:
            return None
        if math.prod(outer) < 4 and math.prod(outer) != math.prod(cluster.outer):
            return None
    return outer


def _length(op: Op, outer: tuple[int, ...]) -> int:
    """Return how many instructions, about, an operation takes in one turn."""
    inner = space_of(op)[len(outer) :]
    each = 2 * op.operands[0].shape[-1] if op.name == "dot" and is_small_dot(op) else 1
    if op.name == "map" and op.params["fn"] not in CHEAP:
        each = 20
    return each * (math.prod(inner) if is_written_out(op, inner) else 1)


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the longest common prefix."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return a[:n]


def _decide_storage(plan: Plan, graph: Graph) -> None:
    """Find what must be written to memory; cheap functions of stored values are computed again instead."""
    forced, factors = _forced(graph), _factors(graph)
    readers: dict[Value, set[Cluster]] = {}
    for op in graph.ops:
        for value in op.outs:
            cluster = plan.home.get(plan.inside[op].out if op in plan.inside else value)
            if cluster is not None:
                if cluster.opaque and op not in plan.inside:
                    plan.stored.add(value)
                for source, _ in sources(op):
                    readers.setdefault(source, set()).add(cluster)
    for value, cluster in list(plan.home.items()):
        if value in forced or readers.get(value, set()) - {cluster}:
            plan.stored.add(value)
    for value, cluster in list(plan.home.items()):  # operands come first, so chains are seen whole
        if value in forced | factors or value not in plan.stored or cluster.opaque:
            continue
        again = _cheap(plan, value, factors, readers.get(value, set()) - {cluster})
        for v in again & plan.home.keys():
            _dissolve(plan, v)


def _cheap(plan: Plan, value: Value, factors: set[Value], others: set[Cluster]) -> set[Value]:
    """Return what all who read a value compute again, if that costs them no more than reading it.

    It does so where what `others`, which read the value, would read for it alone is no larger than the value.
    """
    done: set[Value] = set()
    loads: set[Value] = set()
    if not _enter(plan, value, factors, done, loads):
        return set()
    more = sum(v.nbytes for v in loads if any(v not in cluster.reads for cluster in others))
    return done if more <= value.nbytes else set()


def _enter(plan: Plan, value: Value, factors: set[Value], done: set[Value], loads: set[Value]) -> bool:
    """Enter what is computed, from what is in memory, for one element; return whether it is little."""
    op = value.op
    if value in done:
        return True
    if op is None or op.name == "part" or (done and value in plan.stored):
        if value.shape:
            loads.add(value)
        return True
    if op.name in ("constant", "iota"):
        return op.name == "iota" or op.out.size == 1
    if op.name == "broadcast":
        return _enter(plan, op.operands[0], factors, done, loads)
    if op.name != "map" or op.params["fn"] not in CHEAP or value in factors or len(done) == AGAIN:
        return False
    done.add(value)
    return all(_enter(plan, v, factors, done, loads) for v in op.operands)


def _dissolve(plan: Plan, value: Value) -> None:
    plan.stored.discard(value)
    plan.home.pop(value).members.remove(plan.member.pop(value))


def _nest(plan: Plan, cluster: Cluster) -> None:
    """Order the members of a cluster into inner loops, and note the rows that pass between those."""
    spaces: list[tuple[int, ...] | None] = []  # None: written out
    for member in cluster.members:
        inner = cluster.inner(member)
        product = is_batched_dot(member.op)
        out = is_written_out(member.op, inner)
        earliest = 0
        for value, shared in sources(member.op):
            if plan.home.get(value) is not cluster:
                continue
            other = plan.member[value]
            apart = bool(reduced(other.op)) or shared < len(member.space) or other.space != member.space
            written = spaces[other.nest] is None
            apart = apart or product or is_batched_dot(other.op)
            both = written and out
            earliest = max(earliest, other.nest + (0 if both or not apart else 1))
        key = None if out else inner
        for nest in range(earliest, len(spaces)):
            if spaces[nest] == key and not product and not is_batched_dot(cluster.nests[nest][0].op):
                break
        else:
            nest = len(spaces)
            spaces.append(key)
            cluster.nests.append([])
        member.nest = nest
        cluster.nests[nest].append(member)
    for member in cluster.members:
        for value, _ in sources(member.op):
            if plan.home.get(value) is cluster and plan.member[value].nest < member.nest:
                plan.rows.add(value)
