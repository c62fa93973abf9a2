"""The primitive that one call of a function with rules of the user's own makes.

Its results are those of the function, and after them the values that the forward function has computed and
keeps for the backward one. So a derivative of higher order, which also runs through the kept values, finds
them linked: an input to whatever made it, a result to this call, and any other value to a second run of the
forward function, which is then differentiated itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from everyo.core.batching import everywhere
from everyo.core.dispatch import record, recorded
from everyo.core.modes import current_mode
from everyo.core.primitive import OUT, STATIC, Plan, Primitive
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import batches, staged, top_of
from everyo.errors import GraphStateError, describe
from everyo.transforms.custom_values import (
    Layout,
    MaybeTensors,
    Spec,
    Tensors,
    carriers,
    conjugated,
    explained,
    floating,
    spread,
    zeros,
)
from everyo.transforms.derivatives import vjp
from everyo.transforms.forward import jvp
from everyo.transforms.levels import lower, raised
from everyo.transforms.vectorize import BatchInterpreter, vmap

if TYPE_CHECKING:
    from everyo.transforms.custom_rules import Rules

CallRules: TypeAlias = "Rules | Mapped"  # of one call, or of the batch of calls that it stands for


class Mapped:
    """The same rules on the batch of calls that an interpreter stands for."""

    name: str

    def __init__(self, rules: CallRules, batch: BatchInterpreter) -> None:
        self.rules, self.batch, self.name = rules, batch, rules.name

    @property
    def layout(self) -> Layout | None:
        return self.rules.layout

    @property
    def materialize(self) -> bool:
        return self.rules.materialize

    has_batch = False

    def user_batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int) -> tuple[Any, ...]:
        raise NotImplementedError

    def _map(self, function: Callable[..., Any], *args: Any) -> Any:
        outer = batches.set(tuple([b for b in batches.get() if b is not self.batch]))  # replaced by this one
        try:
            return vmap(function, axis_size=self.batch.size, randomness=self.batch.randomness)(*args)
        finally:
            batches.reset(outer)

    def forward(self, inputs: Tensors) -> tuple[Tensors, Tensors]:
        results = self._map(self.rules.forward, inputs)
        layout_of(self.rules).mapped = True
        return results

    def again(self, inputs: Tensors) -> Tensors:
        return self._map(self.rules.again, inputs)

    def pull(self, residuals: Tensors, gs: MaybeTensors, needs: tuple[bool, ...]) -> MaybeTensors:
        return self._map(lambda rs, gs: self.rules.pull(rs, gs, needs), residuals, gs)

    def push(self, inputs: Tensors, residuals: Tensors, tangents: MaybeTensors) -> MaybeTensors:
        return self._map(self.rules.push, inputs, residuals, tangents)

    def require_linear(self, residuals: Tensors, needs: tuple[bool, ...]) -> None:
        self._map(lambda rs: self.rules.require_linear(rs, needs), residuals)


class Custom(Primitive):
    """The primitive of one call. It is in no registry, and runs user code instead of a kernel."""

    __slots__ = ("interpreter", "lifted", "nested", "rules")

    def __init__(self, rules: CallRules, nested: bool) -> None:
        self.rules, self.nested, self.lifted = rules, nested, False
        self.interpreter: Any = None  # who processes the call
        super().__init__(
            _unused,
            vjp=_unused,
            jvp=_jvp_of(rules, nested),
            batch=_batch,
            family="custom",
            listed=False,
        )
        self.name = rules.name

    def __call__(self, *inputs: Any, **params: Any) -> Any:
        self.lifted = True  # an interpreter has processed it and hands it down
        return self.enter(inputs)

    def on(self, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        return self(*inputs, **params)

    def enter(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Apply: as `dispatch.apply`, but errors of the user's code stay as they are."""
        arrays = [x.data if isinstance(x, Tensor) else x for x in inputs]
        traced = top_of(arrays)
        if traced is not None:
            self.interpreter = traced.interpreter
            traced.interpreter.refuse_foreign(self, inputs)
            with staged(traced.interpreter.staging):
                return traced.interpreter.process(self, inputs, {})
        outs, extras = self.rules.forward([wrap(a) for a in arrays])
        results = tuple([self._constant(x).data for x in (*outs, *extras)])
        mask = sum(1 << i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.grad_node is not None)
        if mask and current_mode().grad:
            node = record(self, inputs, arrays, {}, results, mask)
            node.ensure_extras()  # so that a walk takes the way on which it sets the mode for user code
            return recorded(results, node)
        return tuple(map(wrap, results)) if any(isinstance(x, Tensor) for x in inputs) else results

    def _constant(self, x: Tensor) -> Tensor:
        """Return a result; raise if it depends on a differentiated tensor that is no argument."""
        if x.grad_node is not None or x.level:
            raise GraphStateError(
                "the result depends on a captured tensor whose gradient the rule cannot give",
                operation=self.name,
                inputs=describe(x),
                expected="a function of its arguments alone",
                found="a tensor from outside that requires grad or belongs to a transformation",
                remedy="pass it as an argument, or detach it: w.detach()",
            )
        return x

    def plan(self, mask: int, count: int, needed: int | None = None) -> Plan:
        """Return how this call is recorded; never kept, as a primitive must not refer to itself."""
        layout = layout_of(self.rules)
        wanted = mask if needed is None else needed
        needs = tuple(bool(wanted >> i & 1) for i in range(count))
        reads = (
            range(count)
            if layout.count or layout.whole
            else sorted({i for k, i in layout.sources if k == "input"})
        )
        first = len(layout.outs)
        kept = {i for k, i in layout.sources if k == "out"}
        kept.update(i + first for k, i in layout.sources if k == "extra")

        def save(out: tuple[Any, ...], *arrays: Any) -> tuple[Any, ...]:
            specs = [(tuple(o.shape), o.dtype) for o in out]
            parts = tuple(o if i in kept else None for i, o in enumerate(out))
            return (*(arrays[i] for i in reads), parts, specs)

        def pull(g: dict[int, Any], saved: tuple[Any, ...], params: Any) -> Sequence[Any]:
            *inputs, parts, specs = saved
            found = _pull(self, g, dict(zip(reads, inputs, strict=True)), parts, specs, needs)
            return [found[i] for i in range(count) if needs[i]]

        positions = tuple(i for i in range(count) if wanted >> i & 1)
        return Plan(self, save, None, pull, (*reads, OUT if kept else STATIC, STATIC), positions, count)

    def require_linear(self, moving: Sequence[bool], inputs: Sequence[Any], out: Sequence[Any]) -> None:
        """Raise unless what pulls back to the moving inputs is linear too."""
        residuals = layout_of(self.rules).pick(inputs, out)
        self.rules.require_linear(residuals, tuple(moving))


def _unused(xp: Any, *inputs: Any) -> Any:
    raise NotImplementedError


def _pull(
    primitive: Custom,
    g: dict[int, Any],
    inputs: dict[int, Any],
    parts: tuple[Any, ...],
    specs: Sequence[Spec],
    needs: tuple[bool, ...],
) -> MaybeTensors:
    """Return the cotangents of all inputs, from those of the results and of the kept values."""
    rules, layout = primitive.rules, layout_of(primitive.rules)
    eager = not any(isinstance(v, Tensor) for v in (*g.values(), *inputs.values(), *parts))
    first = len(layout.outs)
    gs = {j: conjugated(raised(c.settle() if hasattr(c, "settle") else c)) for j, c in g.items()}
    held = [inputs.get(i) for i in range(len(needs))]
    found: MaybeTensors = [None] * len(needs)
    if any(j < first for j in gs):
        complete: MaybeTensors = [gs.get(j) for j in range(first)]
        if rules.materialize:
            complete = [zeros(specs[j]) if c is None else c for j, c in enumerate(complete)]
        found = rules.pull(layout.pick(held, parts), complete, needs)
    if any(j >= first for j in gs):
        extra = {j - first: c for j, c in gs.items() if j >= first}
        places = [s for s in range(layout.count) if floating(specs[first + s][1])]
        tensors = [raised(x) for x in held]
        moved = [i for i, need in enumerate(needs) if need]
        run = _varying(rules.again, tensors, moved)
        with explained(rules.name, "forward", True):
            _, pullback = vjp(run, *(tensors[i] for i in moved))
        seeds = [extra[s] if s in extra else zeros(specs[first + s]) for s in places]
        for i, c in zip(moved, pullback(seeds), strict=True):
            found[i] = c if found[i] is None else found[i] + c
    raw = eager and not current_mode().grad  # where nothing is recorded, no captured tensor is followed
    return [
        None if c is None else conjugated(c).data if raw and not c.level else lower(conjugated(c))
        for c in found
    ]


def _jvp_of(rules: CallRules, nested: bool) -> Callable[..., Any]:
    """Return the joint jvp rule: tangents of the results, and of the kept values if somebody reads them."""

    def rule(tangents: Sequence[Any], inputs: Sequence[Any], out: Sequence[Any]) -> tuple[Any, ...]:
        layout = layout_of(rules)
        tensors = [raised(x) for x in inputs]
        moving: MaybeTensors = [None if t is None else raised(t) for t in tangents]
        found = list(rules.push(tensors, layout.pick(inputs, out), moving))
        extras: list[Any] = [None] * layout.count
        if nested and layout.count:
            moved = [i for i, t in enumerate(moving) if t is not None]
            run = _varying(rules.again, tensors, moved)
            with explained(rules.name, "forward", True):
                _, pushed = jvp(run, [tensors[i] for i in moved], [moving[i] for i in moved])
            places = [s for s in range(layout.count) if floating(out[len(layout.outs) + s].dtype)]
            extras = spread(pushed, places, layout.count)
        return tuple(None if t is None else lower(t) for t in (*found, *extras))

    return rule


def _batch(
    primitive: Custom, inputs: Sequence[Any], batched: Sequence[bool], size: int, params: dict[str, Any]
) -> Any:
    """Apply to a batch: by the user's own rule where nothing else differentiates, or the mapped rules."""
    rules = primitive.rules
    if rules.has_batch and not primitive.lifted:
        return rules.user_batch(inputs, batched, size)
    mapped = Mapped(rules, primitive.interpreter)
    return Custom(mapped, primitive.nested)(*everywhere(inputs, batched, size))


def call(rules: CallRules, inputs: Tensors) -> Tensors:
    """Apply a function with rules of its own."""
    levels: set[Any] = set()
    for x in inputs:
        levels |= carriers(x)
    nested = len(levels) > 1 or any(level is not None and level.follows for level in levels)
    results = Custom(rules, nested).enter(inputs)
    return list(results if rules.layout is None else results[: len(rules.layout.outs)])


def _varying(function: Callable[[Tensors], Any], inputs: Tensors, moved: Sequence[int]) -> Callable[..., Any]:
    """Return `function` as one of the inputs at `moved` alone."""

    def varying(*values: Tensor) -> Any:
        given = list(inputs)
        for i, value in zip(moved, values, strict=True):
            given[i] = value
        return function(given)

    return varying


def layout_of(rules: CallRules) -> Layout:
    """Return what the forward run of a call has returned."""
    assert rules.layout is not None
    return rules.layout
