"""A function recorded as the list of its operations, so that it can run again on other values and levels.

Whatever the function captures and is not constant becomes an additional input: derivatives with respect
to captured tensors are those with respect to these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from everyo.core.dispatch import each
from everyo.core.modes import begin, is_constant
from everyo.core.ownership import as_changeable
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Interpreter, Traced
from everyo.errors import UnsupportedOperationError, describe
from everyo.ops.creation import as_tensor
from everyo.transforms.levels import lower, raised
from everyo.transforms.linearity import Doubt, doubts_of, is_nonzero, obstacle, settle

Tensors = list[Tensor]


class Step(NamedTuple):
    """One operation: its operands and results are places of values, or constants."""

    primitive: Primitive
    places: list[int | None]
    constants: list[Any]
    params: dict[str, Any]
    results: range


class Program:
    """The operations that lead from inputs and captured values to the outputs."""

    def __init__(self, count: int, steps: list[Step], outputs: list[tuple[int | None, Any]]) -> None:
        needed = {place for place, _ in outputs}
        kept = []
        for step in reversed(steps):
            if not needed.isdisjoint(step.results):
                needed.update(step.places)
                kept.append(step)
        self.count, self.steps, self.outputs = count, kept[::-1], outputs

    def __call__(self, inputs: Sequence[Any]) -> Tensors:
        """Return the outputs for inputs and captured values, in this order."""
        values: dict[int | None, Any] = dict(enumerate(inputs))
        for step in self.steps:
            operands = [
                c if p is None else values[p] for p, c in zip(step.places, step.constants, strict=True)
            ]
            out = step.primitive(*operands, **step.params)
            values.update(zip(step.results, out if isinstance(out, tuple) else (out,), strict=True))
        return [raised(c if p is None else values[p]) for p, c in self.outputs]


class Placed(Traced):
    """A value that a program computes, its place there, and what on the way to it is not linear, if asked."""

    __slots__ = ("culprit", "doubts", "place")

    def __init__(
        self,
        interpreter: Interpreter,
        value: Any,
        place: int,
        culprit: str | None = None,
        doubts: Sequence[Doubt] = (),
    ) -> None:
        self.interpreter, self.below, self.place = interpreter, value, place
        self.culprit, self.doubts = culprit, doubts

    def concrete(self, operation: str) -> Any:
        if not self.interpreter.linear or operation == "print":
            return self.below
        raise UnsupportedOperationError(
            f"a linear function cannot depend on a value that {operation}() reads",
            operation=operation,
            inputs=describe(self),
            expected="the same operations for every vector",
            found="a decision, or a conversion to NumPy",
            remedy="compute with tensors alone; decide on what does not depend on the vector",
        )


class Recorder(Interpreter):
    """Computes on the level below and notes the operations.

    Parameters
    ----------
    linear : bool
        The function must be linear, and runs at zero.
    """

    name = "implicit differentiation"
    follows = True

    def __init__(self, linear: bool) -> None:
        super().__init__()
        begin(self.level)
        self.linear = linear
        self.steps: list[Step] = []
        self.captured: dict[Any, tuple[int, Tensor]] = {}
        self.size = 0

    def place(self, value: Any, culprit: str | None = None, doubts: Sequence[Doubt] = ()) -> Tensor:
        """Return a value of the level below as the next of this level."""
        self.size += 1
        return wrap(Placed(self, value, self.size - 1, culprit, doubts))

    def operand(self, x: Any) -> tuple[int | None, Any]:
        """Return the place of an operand, or None and the constant it is."""
        if self.mine(x):
            return x.data.place, None
        if not isinstance(x, Tensor) or (x.level == 0 and x.grad_node is None):
            return None, lower(x)
        key = id(x.data), id(x.grad_node)
        if key not in self.captured:
            kept = wrap(x.data)  # an object of its own: an in-place statement may change `x`
            kept.grad_node = x.grad_node
            self.captured[key] = (self.size, kept)
            self.size += 1
        return self.captured[key][0], None

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on the values below and note the operation; its result is constant in a `no_grad` block."""
        operands = [self.operand(x) for x in inputs]
        values = [x.data.below if self.mine(x) else lower(x) for x in inputs]
        out = primitive(*values, **params)
        culprit = self._culprit(primitive, inputs, values, params, out) if self.linear else None
        constant = not self.linear or primitive.options.get("constant")
        doubts = [] if constant else doubts_of(primitive, [self.mine(x) for x in inputs], inputs, out)
        start = self.size
        made = each(lambda o: self.place(o, culprit, doubts), out)
        places, constants = [p for p, _ in operands], [c for _, c in operands]
        self.steps.append(Step(primitive, places, constants, params, range(start, self.size)))
        if is_constant(self.level) and primitive.name != "stop_gradient":
            return each(op.stop_gradient, made)
        return made

    def _culprit(
        self,
        primitive: Primitive,
        inputs: Sequence[Any],
        values: Sequence[Any],
        params: dict[str, Any],
        out: Any,
    ) -> str | None:
        """Return what on the way to a result is not linear, if anything."""
        if primitive.options.get("constant"):
            return None
        moving = [self.mine(x) for x in inputs]
        found = (x.data.culprit for x, m in zip(inputs, moving, strict=True) if m and x.data.culprit)
        return next(found, None) or obstacle(primitive, moving, values, params, out)


def program_of(
    function: Callable[[Tensors], Sequence[Any]], inputs: Tensors, linear_for: str | None = None
) -> tuple[Program, Tensors, Tensors]:
    """Return a function as a program, the tensors it captures, and its outputs at `inputs`.

    The program takes the inputs and then the captured tensors. With `linear_for`, the operation that needs
    it, the function must be linear, and the inputs are zero.

    Raises
    ------
    UnsupportedOperationError
        If it must be linear and is not.
    """
    with Recorder(linear_for is not None) as recorder:
        variables = [as_changeable(recorder.place(lower(x)), x) for x in inputs]
        results = [as_tensor(recorder.released(x)) for x in function(variables)]
        if linear_for is not None:
            _require_linear(results, recorder, linear_for)
        outputs = [recorder.operand(x) for x in results]
        values = [raised(x.data.below) if recorder.mine(x) else x for x in results]
    n = len(inputs)
    captured = list(recorder.captured.values())
    order = [*range(n), *(place for place, _ in captured)]
    position = {place: i for i, place in enumerate(order)}  # captured ones move up behind the inputs
    following = iter(range(len(order), recorder.size))
    for place in range(recorder.size):
        if place not in position:
            position[place] = next(following)
    steps = [
        Step(
            s.primitive,
            [None if p is None else position[p] for p in s.places],
            s.constants,
            s.params,
            range(position[s.results.start], position[s.results.start] + len(s.results)),
        )
        for s in recorder.steps
    ]
    placed = [(None if p is None else position[p], c) for p, c in outputs]
    return Program(len(order), steps, placed), [x for _, x in captured], values


def _require_linear(results: Tensors, recorder: Recorder, operation: str) -> None:
    """Raise unless results depend on the variables in a linear way."""
    for x in results:
        refuse = functools.partial(_not_linear, operation, describe(x))
        mine = recorder.mine(x)
        found = x.data.culprit if mine else "a constant" if is_nonzero(x) else None
        if found:
            raise refuse(found)
        settle(x.data.doubts if mine else [Doubt(x, "a constant")], refuse)


def _not_linear(operation: str, inputs: str, found: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        "matvec is not linear in its vector",
        operation=operation,
        inputs=inputs,
        expected="a product A @ x: sums of the vector's elements times what does not depend on it",
        found=found,
        remedy="move constants to b; for equations that are not linear take eo.implicit.custom_root",
    )
