"""Reverse mode as a function transformation: a tape of one's own around one call of a function.

Outside of other transformations the eager tape serves, at full speed. Inside one, a tape of its own
level records on the values of the level below, so that nested derivatives never mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everyo.core.backward import enter, leave
from everyo.core.dispatch import _carries_gradient, record, wrap
from everyo.core.modes import is_grad_enabled
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tape import LeafNode, Node, OutputNode
from everyo.core.tensor import Tensor
from everyo.core.traced import Interpreter, Traced, depth
from everyo.core.walk import Walk, recording, topological_order
from everyo.transforms.levels import as_tensor, lower, raised


class Taped(Traced):
    """A value of a tape's level: the value of the level below, recorded by the tensor's node."""

    __slots__ = ("value",)

    def __init__(self, interpreter: Interpreter, value: Any) -> None:
        self.interpreter, self.value = interpreter, value

    @property
    def below(self) -> Any:
        return self.value


class LevelTape(Interpreter):
    """Records operations on values of its level; its rules run on the level below."""

    name = "grad"

    def __enter__(self) -> Any:
        self._recording = recording(True)
        self._recording.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self._recording.__exit__(*exc)

    def variable(self, x: Tensor) -> Tensor:
        """Return a leaf of this level that stands for `x`."""
        leaf = wrap(Taped(self, lower(x)))
        leaf.grad_node = LeafNode(leaf)
        return leaf

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on the level below; record the call if an operand of this level has a node."""
        values = [x.data.value if self.mine(x) else lower(x) for x in inputs]
        out = primitive(*values, **params)
        mask = sum(1 << i for i, x in enumerate(inputs) if self.mine(x) and x.grad_node is not None)
        carries = isinstance(out, tuple) or _carries_gradient(out)
        if not (mask and is_grad_enabled() and primitive.vjp is not None and carries):
            return tuple(raised(o) for o in out) if isinstance(out, tuple) else raised(out)
        node = record(primitive, inputs, values, params, out, mask)
        if isinstance(out, tuple):
            return tuple(
                self._result(o, OutputNode(node, i)) if _carries_gradient(o) else raised(o)
                for i, o in enumerate(out)
            )
        return self._result(out, node)

    def _result(self, value: Any, node: Node) -> Tensor:
        made = wrap(Taped(self, value))
        made.grad_node = node
        return made

    def pull(
        self, outputs: Sequence[Tensor], seeds: Sequence[Any], variables: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the gradients with respect to `variables`, as tensors of the level below."""
        nodes = [v._require_node("grad") for v in variables]
        walk = Walk(set(nodes), True, False)
        for i, (output, seed) in enumerate(zip(outputs, seeds, strict=True)):
            if self.mine(output) and output.grad_node is not None:
                walk.seed(output.grad_node, lower(enter(raised(output.data.value), seed, i, True)))
        arrived = walk.run(variables[0].backend) if variables else {}
        return [_gradient(arrived.get(node), v) for node, v in zip(nodes, variables, strict=True)]

    def value(self, result: Any) -> Tensor:
        """Return a result of the function as a tensor of the level below."""
        return raised(result.data.value) if self.mine(result) else as_tensor(result)


class EagerTape:
    """The same on the eager tape, where no other transformation is active."""

    def __init__(self) -> None:
        self._recording = recording(True)
        self._own: set[Node] = set()

    def __enter__(self) -> EagerTape:
        self._outer = is_grad_enabled()
        self._recording.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._recording.__exit__(*exc)

    def released(self, x: Any) -> Any:
        """Return a result of the function."""
        return x

    def variable(self, x: Tensor) -> Tensor:
        """Return a tensor with a node of its own: a leaf, or an alias that keeps the path to `x`."""
        if x.requires_grad and self._outer:
            return op.alias(x)
        leaf = wrap(x.data)
        leaf.grad_node = LeafNode(leaf)
        self._own.add(leaf.grad_node)
        return leaf

    def pull(
        self, outputs: Sequence[Tensor], seeds: Sequence[Any], variables: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the gradients with respect to `variables`, recorded if others can differentiate them."""
        nodes = [v._require_node("grad") for v in variables]
        pairs = [(o, s, i) for i, (o, s) in enumerate(zip(outputs, seeds, strict=True)) if o.requires_grad]
        tracked = self._outer and (any(map(self._reaches_outside, outputs)) or _any_tracked(seeds))
        walk = Walk(set(nodes), True, tracked)
        for output, seed, i in pairs:
            cotangent = enter(output, seed, i, True)  # of any level: the pullback may run under vmap
            walk.seed(output._require_node("grad"), cotangent if tracked else lower(cotangent))
        arrived = walk.run(variables[0].backend) if pairs and variables else {}
        return [_gradient(arrived.get(node), v) for node, v in zip(nodes, variables, strict=True)]

    def _reaches_outside(self, output: Tensor) -> bool:
        """Whether an output depends on a living leaf other than this tape's own."""
        if output.grad_node is None:
            return False
        leaves = [node for node in topological_order([output.grad_node]) if isinstance(node, LeafNode)]
        return any(leaf not in self._own and leaf.leaf() is not None for leaf in leaves)

    def value(self, result: Any) -> Tensor:
        """Return a result of the function, without its graph unless others can differentiate it."""
        value = as_tensor(result)
        return value if self._outer and self._reaches_outside(value) else value.detach()


def tape() -> Any:
    """Return the tape for one call of a function; a context manager."""
    return LevelTape() if depth() else EagerTape()


def _any_tracked(seeds: Sequence[Any]) -> bool:
    return any(isinstance(s, Tensor) and s.requires_grad for s in seeds)


def _gradient(cotangent: Any, variable: Tensor) -> Tensor:
    """Return what arrived at a variable; zeros where the outputs do not depend on it."""
    if cotangent is None:
        return op.zeros_like(raised(variable.data.value) if variable.level else variable.detach())
    return leave(cotangent, variable)
