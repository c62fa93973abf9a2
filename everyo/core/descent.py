"""Backward passes from values inside transformations, where each level has a graph of its own.

The value of a tape's level has a node for what that tape follows, and the value below it one for what the
tape below follows, down to the eager tape. A pass that is recorded stays on the level where it starts: the
graphs below do not know what depends on that level. One that is not recorded is constant to all
transformations, so each level walks its own graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from everyo.core.backward import enter
from everyo.core.cotangents import Partial
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.modes import switched
from everyo.core.registry import op
from everyo.core.tape import LeafNode, Node, origin
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Traced, depth, downwards, require_outer, staging
from everyo.core.walk import Walk, topological_order
from everyo.errors import CompileError, GraphStateError, describe


def run_inside(
    roots: Sequence[Tensor],
    gradients: Sequence[Any],
    targets: set[Node] | None,
    retain: bool,
    create_graph: bool,
) -> dict[Node, Any]:
    """Return what `backward.run` returns, for roots or gradients that may belong to transformations.

    Raises
    ------
    GraphStateError
        If a gradient is asked for that this level does not know: of a tensor from outside, in a pass that is
        recorded or behind a batch.
    """
    for root in roots:
        root._require_node("backward")
    tracer = staging.get()
    values = [x for x in (*roots, *gradients) if isinstance(x, Tensor)]
    symbolic = tracer is not None and all(x.level in (0, tracer.level) for x in values)
    if create_graph:  # on each level, whatever block this is in: the user has asked for the graph
        mode: Any = switched(grad=True, held=-1)
    elif symbolic:  # what arrives is made constant: blocks would mark each operation of the program
        mode = contextlib.nullcontext()
    else:
        mode = switched(grad=False, held=_linear(gradients) - 1)
    walks: dict[Any, Walk] = {}
    with mode:
        for i, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
            cotangent = enter(root, gradient, i, True)
            if not create_graph:
                cotangent = op.stop_gradient(cotangent) if symbolic else op.alias(cotangent)
            for part, batched in _parts(root):
                if part is root or _receives(part, targets, not (create_graph or batched)):
                    _require_known(root, part, create_graph or batched)
                    tape = _tape_of(part)
                    walk = walks.setdefault(tape, Walk(targets, retain, create_graph, tape=tape))
                    walk.seed(part._require_node("backward"), _below(cotangent, root, part))
        if tracer is not None and None in walks:
            _require_traced(walks[None], tracer.born)
        arrived: dict[Node, Any] = {}
        for walk in walks.values():
            arrived.update(walk.run(roots[0].backend))
    if symbolic and not create_graph:
        return {node: _constant(cotangent) for node, cotangent in arrived.items()}
    return arrived


def _require_traced(walk: Walk, born: int) -> None:
    """Raise if a pass in a compiled function would go on in a graph from outside: another one each time."""
    for node in walk.on_the_way():
        if node.age < born and not isinstance(node, LeafNode):
            raise CompileError(
                "a backward pass inside leads into the graph of a tensor from outside",
                operation="backward",
                expected="a graph that the compiled function records itself",
                found=f"{origin(node)}, computed before",
                remedy="compute it inside, or detach it: x.detach(), or `with eo.no_grad():` around what is "
                "carried to the next call",
            )


def _linear(gradients: Sequence[Any]) -> int:
    """Return the lowest level on which a gradient is the argument of a linear map; else one above all.

    The pass is linear in what it is given, also where it is no derivative of what surrounds it.
    """
    levels = [x.level for g in gradients for x in downwards(g) if x.level and x.data.interpreter.linear]
    return min(levels, default=depth() + 1)


def _parts(root: Tensor) -> Iterator[tuple[Tensor, bool]]:
    """Yield a tensor and those below it that have a node, with whether a batch lies between."""
    x, batched = root, False
    while isinstance(x, Tensor):
        if x.grad_node is not None:
            yield x, batched
        data = x.data
        if not isinstance(data, Traced) or data.interpreter.writes_outside:
            return
        require_outer(x, data.level + 1, "backward")
        batched |= data.batched
        x = data.below


def _tape_of(x: Tensor) -> Any:
    """Return the interpreter that recorded a tensor; None for the eager tape, also on symbols."""
    data = x.data
    return data.interpreter if isinstance(data, Traced) and not data.interpreter.writes_outside else None


def _receives(part: Tensor, targets: set[Node] | None, variables: bool) -> bool:
    """Whether a gradient would arrive on the level of `part`; at an argument only if `variables`."""
    oldest = -1 if targets is None else min((node.age for node in targets), default=-1)
    for node in topological_order([part._require_node("backward")], oldest):
        if targets is not None:
            found = node in targets
        elif isinstance(node, LeafNode):
            found = (variables or node.is_leaf) and node.leaf() is not None
        else:
            found = bool(node.extras and node.extras.retained and node.extras.retained())
        if found:
            return True
    return False


def _require_known(root: Tensor, part: Tensor, unknown: bool) -> None:
    """Raise if a gradient of a level below is asked for, and what it would depend on is not known there."""
    if part is root or not unknown:
        return
    name = root.data.interpreter.name
    raise GraphStateError(
        f"the gradient of a tensor from outside of the {name} that runs is not known inside",
        operation="backward",
        inputs=describe(root),
        expected="gradients with respect to values of this transformation",
        found="a leaf or a result from outside, and create_graph=True or a batch in between",
        remedy="name what is differentiated, backward(inputs=[...]), or use eo.grad or eo.vjp inside",
    )


def _below(cotangent: Tensor, root: Tensor, part: Tensor) -> Any:
    """Return the cotangent of `root` as that of `part`, the same value on the same or a lower level."""
    if part is not root:
        while isinstance(cotangent, Tensor) and cotangent.level > part.level:
            _require_known(root, part, cotangent.data.batched)
            cotangent = cotangent.data.below
    return cotangent if isinstance(cotangent, Tensor) else wrap(cotangent)


def _constant(cotangent: Any) -> Any:
    """Return what arrived as a constant to whatever differentiates the program."""
    if isinstance(cotangent, Partial):
        cotangent = cotangent.settle()
    if isinstance(cotangent, Tensor) and cotangent.dtype.kind in DIFFERENTIABLE:
        return op.stop_gradient(cotangent)
    return cotangent
