"""Reverse mode as a function transformation: a tape of one's own around one call of a function.

Outside of other transformations the eager tape serves, at full speed. Inside one, a tape of its own
level records on the values of the level below, so that nested derivatives never mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.backward import enter, leave
from everyo.core.copying import same_value
from everyo.core.dispatch import carries_gradient, each, record
from everyo.core.modes import begin, current_mode, is_constant, is_grad_enabled, switched
from everyo.core.ownership import as_changeable
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tape import Node, OutputNode, VariableNode, next_age
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Changes, Interpreter, Traced, depth, refuse_taken, require_outer, reveal, undo
from everyo.core.walk import Walk
from everyo.ops.creation import as_tensor, fresh
from everyo.transforms.levels import lower, raised


class Taped(Traced):
    """A value of a tape's level: the value of the level below, recorded by the tensor's node."""

    __slots__ = ()


class LevelTape(Interpreter):
    """Records operations on values of its level; its rules run on the level below."""

    name = "grad"

    def __init__(self) -> None:
        super().__init__()
        self._receivers: list[Tensor] = []
        mode = begin(self.level)
        self._block = None if mode.held < 0 else switched(grad=mode.grad, held=mode.held)

    def variable(self, x: Tensor) -> Tensor:
        """Return a leaf of this level that stands for `x`."""
        leaf = wrap(Taped(self, lower(x)))
        leaf.grad_node = VariableNode(leaf)
        receiver = wrap(x.data)  # of the level below: one of this level would refer back to the tape
        receiver.grad_node = leaf.grad_node
        self._receivers.append(receiver)
        return as_changeable(leaf, x)

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on the level below; record the call if an operand of this level has a node."""
        values, mask, given = [], 0, False
        for i, x in enumerate(inputs):
            data: Any = x.data if isinstance(x, Tensor) else None
            mine = data.__class__ is Taped and data.interpreter is self  # as `mine` does, without its call
            value = data.below if mine else lower(x)
            given |= value is x and isinstance(data, Traced)  # a captured array is known by its object
            values.append(value)
            if mine and x.grad_node is not None:
                mask |= 1 << i
        out = primitive.on(values, params)
        recorded = mask and primitive.vjp is not None and carries_gradient(out)
        if not recorded or (current_mode().held >= 0 and is_constant(self.level)):
            return each(raised, out)
        if given:  # a node that kept the object would keep it alive, as if it were captured
            values = [
                same_value(v) if v is x and isinstance(v, Tensor) and isinstance(v.data, Traced) else v
                for v, x in zip(values, inputs, strict=True)
            ]
        recording = record if self._block is None else self._record
        node = recording(primitive, inputs, values, params, out, mask)
        if isinstance(out, tuple):
            return self._parts(out, node)
        return self._linked(out, node)

    def _record(
        self,
        primitive: Primitive,
        inputs: Sequence[Any],
        values: Sequence[Any],
        params: Any,
        out: Any,
        mask: int,
    ) -> Node:
        """Return the node of a call; what a tape in a `no_grad` block saves is constant beyond the block."""
        if self._block is not None:
            with self._block:
                values = [_held(v) for v in values]
                out = each(_held, out)
        return record(primitive, inputs, values, params, out, mask)

    def _parts(self, out: tuple[Any, ...], node: Node) -> tuple[Any, ...]:
        return tuple(
            None if o is None else self._linked(o, OutputNode(node, i)) if carries_gradient(o) else raised(o)
            for i, o in enumerate(out)
        )

    def _linked(self, value: Any, node: Node) -> Tensor:
        made = wrap(Taped(self, value))
        made.grad_node = node
        return made

    def linked(self, value: Any, node: Node | None) -> Any:
        """Return what a node saved of the value of `node`, or of a constant, on this level again."""
        if node is not None and isinstance(value, tuple):
            return self._parts(value, node)
        if node is None or getattr(value, "dtype", None) is None:
            return value
        return self._linked(value.below if isinstance(value, Traced) else value, node)

    def pull(self, outputs: Sequence[Tensor], seeds: Sequence[Any], retain: bool) -> list[Tensor]:
        """Return the gradients with respect to all variables, as tensors of the level below.

        `retain` keeps what the tape has saved, for another call.
        """
        walk = Walk(None, retain, False, nested=True)  # all leaves of this level are variables
        for i, (output, seed) in enumerate(zip(outputs, seeds, strict=True)):
            if self.mine(output) and output.grad_node is not None:
                below = raised(output.data.below)
                cotangent = _one(below) if seed is None else _seed(below, seed, i)
                walk.seed(output.grad_node, cotangent if below.level else lower(cotangent))
        return _gradients(walk, self._receivers)

    def value(self, result: Any) -> Tensor:
        """Return a result of the function as a tensor of the level below."""
        return raised(result.data.below) if self.mine(result) else as_tensor(result)


def _held(value: Any) -> Any:
    """Return a value as the current block takes it: constant, but to what runs inside the block."""
    return op.alias(value) if isinstance(value, Tensor) else value


class EagerTape:
    """The same on the eager tape, where no other transformation is active."""

    name = "grad"

    def __init__(self) -> None:
        self._born = next_age()
        self._changes = Changes(self._born)
        self._recording = switched(grad=True, changes=self._changes)
        self._receivers: list[Tensor] = []
        self._within: set[Node] = set()

    def __enter__(self) -> EagerTape:
        self._outer = is_grad_enabled()
        self._recording.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._recording.__exit__(*exc)
        if self._changes.entries:
            others = undo(self._changes.entries, self._depends, self.name, exc[1])
            self._changes.entries = []
            around = current_mode().changes
            if around is not None:  # values of the function around this one
                around.entries += others
        reveal(exc[1])

    def _depends(self, x: Tensor) -> bool:
        """Whether a tensor was computed from the variables."""
        variables = {r.grad_node for r in self._receivers}
        found = [] if x.grad_node is None else [x.grad_node]
        seen = set(found)
        for node in found:
            if node in variables:
                return True
            new = [p for p in node.parents if p.age >= self._born and p not in seen]
            seen.update(new)
            found += new
        return False

    def released(self, x: Any) -> Any:
        """Return a result of the function, and let go of the object if it changed in place."""
        refuse_taken(x, self._changes.taken, self.name)
        if self._changes.entries:
            self._changes.entries = [entry for entry in self._changes.entries if entry[0]() is not x]
        if isinstance(getattr(x, "data", None), Traced):
            require_outer(x, 1, self.name)
        return x

    def variable(self, x: Tensor) -> Tensor:
        """Return a tensor with a node of its own: a leaf, or an alias that keeps the path to `x`."""
        if x.grad_node is not None and self._outer:
            variable = op.alias(x)
        else:
            variable = wrap(x.data)
            variable.grad_node = VariableNode(variable)
        self._receivers.append(same_value(variable))  # what the function does to it in place is its own
        return as_changeable(variable, x)

    def pull(self, outputs: Sequence[Tensor], seeds: Sequence[Any], retain: bool) -> list[Tensor]:
        """Return the gradients with respect to all variables, recorded if others can differentiate them.

        `retain` keeps what the tape has saved, for another call.
        """
        pairs = [
            (o, s, i) for i, (o, s) in enumerate(zip(outputs, seeds, strict=True)) if o.grad_node is not None
        ]
        outside = any(self._reaches_outside(o) for o, _, _ in pairs)
        tracked = outside and self._outer and is_grad_enabled()
        if outside:
            walk = Walk({r._require_node("grad") for r in self._receivers}, True, tracked, nested=True)
        else:
            walk = Walk(None, retain, False, nested=True)  # every path leads to our variables
        for output, seed, i in pairs:
            cotangent = _seed(output, seed, i)  # of any level: the pullback may run under vmap
            walk.seed(output._require_node("grad"), cotangent if tracked else lower(cotangent))
        return _gradients(walk, self._receivers)

    def _reaches_outside(self, output: Tensor) -> bool:
        """Whether the graph of an output leads out of this tape, so that others can differentiate it.

        What is older than the tape lies outside, and so does a leaf that the function has made. Variables of
        younger tapes do not: nobody else can ask for them.
        """
        root, within = output.grad_node, self._within
        if root is None or root in within:
            return False
        found, seen = [root], {root}
        for node in found:
            if node.age < self._born or not (node.parents or isinstance(node, VariableNode)):
                return True
            for parent in node.parents:
                if parent not in seen and parent not in within:
                    seen.add(parent)
                    found.append(parent)
        within |= seen
        return False

    def value(self, result: Any) -> Tensor:
        """Return a result of the function, without its graph unless others can differentiate it."""
        value = as_tensor(result)
        return value if self._outer and self._reaches_outside(value) else wrap(value.data)


def tape() -> Any:
    """Return the tape for one call of a function; a context manager."""
    return LevelTape() if depth() else EagerTape()


def _seed(output: Tensor, seed: Any, position: int) -> Tensor:
    """Return the cotangent of an output; in a `no_grad` block a constant, where a rule may hand it on."""
    cotangent: Tensor = enter(output, seed, position, True)
    return cotangent if current_mode().held < 0 else op.alias(cotangent)


def _one(scalar: Tensor) -> Tensor:
    """Return the cotangent of a scalar: a constant, so that no transformation around has to process it."""
    backend, shape = scalar.backend, scalar.shape
    one = backend.asarray(1, scalar.dtype, scalar.device)
    return fresh(backend.xp.reshape(one, shape) if shape else one)


def _gradients(walk: Walk, receivers: Sequence[Tensor]) -> list[Tensor]:
    """Return what arrives at the variables; zeros where the outputs do not depend on them."""
    arrived = walk.run(receivers[0].backend) if walk.pending and receivers else {}
    gradients = []
    for receiver in receivers:
        cotangent = arrived.pop(receiver._require_node("grad"), None)
        if cotangent is None:
            gradients.append(op.zeros_like(wrap(receiver.data)))
        else:
            gradients.append(leave(cotangent, receiver))
    for node, cotangent in arrived.items():
        hidden = node.extras.retained() if node.extras and node.extras.retained else None
        if hidden is not None:
            hidden.grad = leave(cotangent, hidden)
    return gradients
