"""Rules of the user's own in one call: what is missing is derived, what they return is checked."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from everyo.core.tape import next_age
from everyo.core.tensor import Tensor
from everyo.core.traced import readings
from everyo.errors import ShapeError, UnsupportedOperationError
from everyo.ops.replay import Draws
from everyo.transforms.custom_calls import call, layout_of
from everyo.transforms.custom_values import (
    Layout,
    MaybeTensors,
    Tensors,
    carries,
    detached,
    explained,
    fitted,
    floating,
    not_linear,
    not_traceable,
    probe,
    spread,
    zeros,
)
from everyo.transforms.linearity import transposed, transposing
from everyo.transforms.reverse import tape
from everyo.transforms.trees import flatten

# The functions whose backward rule is being looked at.
_checked: ContextVar[frozenset[Any]] = ContextVar("everyo_checked", default=frozenset())


class Rules:
    """One call: the function and its rules on flat lists of tensors, as the user's code sees them.

    A subclass gives `run`, and one or both of `backward` and `forward_rule`; the one that is missing is the
    transpose of the other. Gradients are those that users know, ``dL/dx + i dL/dy``.
    """

    name = "function"
    has_backward = has_forward_rule = has_batch = False
    once = False  # the backward rule cannot be differentiated
    materialize = True  # it gets zeros for results that do not matter, instead of None
    source: Any = None  # whose rules they are

    def __init__(self) -> None:
        self.draws = Draws()
        self.constants: Sequence[Any] = ()  # arguments that are no tensors
        self.layout: Layout | None = None

    def run(self, inputs: Tensors) -> tuple[Tensors, Any]:
        """Compute the results, and a tree of what `backward` reads."""
        raise NotImplementedError

    def backward(self, kept: Any, gs: MaybeTensors, needs: tuple[bool, ...]) -> Sequence[Any]:
        """Return what the user's backward rule returns, flat."""
        raise NotImplementedError

    def forward_rule(self, kept: Any, inputs: Tensors, tangents: MaybeTensors) -> Sequence[Any]:
        """Return what the user's jvp rule returns, flat."""
        raise NotImplementedError

    def user_batch(self, inputs: Sequence[Any], batched: Sequence[bool], size: int) -> tuple[Any, ...]:
        """Return what the user's batching rule returns, the batch first."""
        raise NotImplementedError

    def forward(self, inputs: Tensors) -> tuple[Tensors, Tensors]:
        """Return the results and the kept values that are neither inputs nor results."""
        read: list[str] = []
        born = next_age()
        token = readings.set(read)
        try:
            with self.draws.noted():
                outs, kept = self.run(inputs)
        finally:
            readings.reset(token)
        layout = Layout(inputs, outs, kept, self.constants, bool(read), born)
        layout.opaque |= self.once
        extras, layout.extras = layout.extras, []
        if self.layout is None:
            self.layout = layout
        return outs, extras

    def again(self, inputs: Tensors) -> Tensors:
        """Return the kept values of a second run, which is recorded."""
        with self.draws.again():
            _, kept = self.run(inputs)
        leaves, _ = flatten(kept)
        sources = zip(leaves, layout_of(self).sources, strict=True)
        return [x for x, (kind, _) in sources if kind == "extra" and floating(x.dtype)]

    def pull(self, residuals: Tensors, gs: MaybeTensors, needs: tuple[bool, ...]) -> MaybeTensors:
        """Return a gradient, or None, for each input."""
        layout = layout_of(self)
        if not self.has_backward:
            return self._transposed_forward(residuals, gs, needs)
        live = [x for x in (*residuals, *gs) if x is not None and carries(x)]
        if self.once and live:
            residuals, gs = detached(residuals), detached(gs)
        tree = self._restored(residuals)
        if live and transposing.get():
            self.require_linear(residuals, needs)
        with explained(self.name, "backward", bool(live)):
            results = self._checked(self.backward(tree, gs, needs), needs)
        if live:
            opaque = self.once or (layout.opaque and any(map(carries, residuals)))
            dead = [r is not None and (opaque or not carries(r)) for r in results]
            if any(dead) and not opaque:
                followed = self._followed(tree, gs, needs)
                dead = [d and not f for d, f in zip(dead, followed, strict=True)]
            results = [self._barrier(r, live) if d else r for r, d in zip(results, dead, strict=True)]
        return results

    def _restored(self, residuals: Tensors) -> Any:
        """Return the tree of kept values; where objects in it may hide some, as a second run returns them."""
        layout = layout_of(self)
        inputs = residuals[-len(layout.inputs) :]
        if not layout.hidden or self.once or not (layout.mapped or any(map(carries, inputs))):
            return layout.restore(residuals)
        with explained(self.name, "forward", True), self.draws.again():
            _, kept = self.run(inputs)
        return layout.restore(residuals, flatten(kept)[0])

    def push(self, inputs: Tensors, residuals: Tensors, tangents: MaybeTensors) -> MaybeTensors:
        """Return a tangent, or None, for each result."""
        if not self.has_forward_rule:
            return self._transposed_backward(residuals, tangents)
        found = list(self.forward_rule(self._restored(residuals), inputs, tangents))
        specs = layout_of(self).outs
        if len(found) != len(specs):
            raise self._miscounted("jvp", "tangent", "result", len(specs), len(found))
        return [
            fitted(self.name, "jvp", t, spec, f"the tangent of result {i}")
            for i, (t, spec) in enumerate(zip(found, specs, strict=True))
        ]

    # ---- one rule from the other

    def _transposed_backward(self, residuals: Tensors, tangents: MaybeTensors) -> MaybeTensors:
        layout = layout_of(self)
        moved = [i for i, t in enumerate(tangents) if t is not None]
        needs = tuple(t is not None for t in tangents)
        places = [j for j, (_, dtype) in enumerate(layout.outs) if floating(dtype)]

        def linear(*gs: Tensor) -> Tensors:
            found = self.pull(residuals, self._complete(gs, places), needs)
            return [zeros(layout.inputs[i]) if found[i] is None else found[i] for i in moved]  # type: ignore[misc]

        refuse = functools.partial(not_linear, self.name, "backward")
        transpose = transposed(linear, [layout.outs[j] for j in places], refuse)
        return spread(transpose([tangents[i] for i in moved]), places, len(layout.outs))

    def require_linear(self, residuals: Tensors, needs: tuple[bool, ...]) -> None:
        """Raise unless the backward rule is linear in the incoming gradients.

        Raises
        ------
        UnsupportedOperationError
            With the operation in it that is not.
        """
        checked = _checked.get()
        if not self.has_backward or self.source in checked:  # a rule may call the function that it belongs to
            return
        token = _checked.set(checked | {self.source})
        try:
            layout = layout_of(self)
            places = [j for j, (_, dtype) in enumerate(layout.outs) if floating(dtype)]
            tree = self._restored(residuals)

            def linear(*gs: Tensor) -> Tensors:
                found = self._checked(self.backward(tree, self._complete(gs, places), needs), needs)
                return [g for g in found if g is not None]

            refuse = functools.partial(not_linear, self.name, "backward")
            with explained(self.name, "backward", True):
                transposed(linear, [layout.outs[j] for j in places], refuse)
        finally:
            _checked.reset(token)

    def _complete(self, gs: Sequence[Tensor], places: Sequence[int]) -> MaybeTensors:
        """Return a gradient for each result: zeros for those that have none."""
        given = dict(zip(places, gs, strict=True))
        return [given[j] if j in given else zeros(s) for j, s in enumerate(layout_of(self).outs)]

    def _transposed_forward(
        self, residuals: Tensors, gs: MaybeTensors, needs: tuple[bool, ...]
    ) -> MaybeTensors:
        layout = layout_of(self)
        if not self.has_forward_rule:
            raise UnsupportedOperationError(
                "there is neither a backward rule nor a jvp rule",
                operation=self.name,
                expected="one of them",
                found="none",
                remedy="define backward(ctx, *gradients)",
            )
        inputs = [x for x in layout.restore(residuals) if isinstance(x, Tensor)]
        moved = [i for i, (_, dtype) in enumerate(layout.inputs) if needs[i] and floating(dtype)]
        places = [j for j, (_, dtype) in enumerate(layout.outs) if floating(dtype)]

        def linear(*ts: Tensor) -> Tensors:
            found = self.push(inputs, residuals, spread(ts, moved, len(needs)))
            return [zeros(layout.outs[j]) if found[j] is None else found[j] for j in places]  # type: ignore[misc]

        refuse = functools.partial(not_linear, self.name, "jvp")
        with explained(self.name, "jvp", True):
            transpose = transposed(linear, [layout.inputs[i] for i in moved], refuse)
        seeds = [zeros(layout.outs[j]) if gs[j] is None else gs[j] for j in places]
        return spread(transpose(seeds), moved, len(needs))

    # ---- what a rule returns

    def _checked(self, results: Sequence[Any], needs: tuple[bool, ...]) -> MaybeTensors:
        specs = layout_of(self).inputs
        if len(results) != len(specs):
            raise self._miscounted("backward", "gradient", "input", len(specs), len(results))
        return [
            fitted(self.name, "backward", r, spec, f"the gradient of input {i}") if need else None
            for i, (r, spec, need) in enumerate(zip(results, specs, needs, strict=True))
        ]

    def _miscounted(self, rule: str, item: str, of: str, expected: int, found: int) -> ShapeError:
        return ShapeError(
            f"{rule} returned another number of {item}s than there are {of}s",
            operation=self.name,
            expected=f"{expected}, with None where it is zero",
            found=str(found),
            remedy="return one for each, in order",
        )

    def _followed(self, tree: Any, gs: MaybeTensors, needs: tuple[bool, ...]) -> list[bool]:
        """For each result of `backward`, whether it can be followed back to the incoming gradients.

        It is linear in them, so a result that cannot is either zero or computed behind our back.
        """
        with tape() as recorder:
            moving = [
                g if g is None or not floating(g.dtype) else recorder.variable(probe((g.shape, g.dtype)))
                for g in gs
            ]
            results = self._checked(self.backward(tree, moving, needs), needs)
        return [r is None or r.grad_node is not None or not r._host("print").any() for r in results]

    def _barrier(self, result: Tensor | None, live: Tensors) -> Tensor | None:
        """Return a result that raises when it is differentiated."""
        return result if result is None else call(Barrier(self), [result, *live])[0]


class Barrier(Rules):
    """The identity of its first input, which raises when it is differentiated."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.name, self.owner = rules.name, rules

    def run(self, inputs: Tensors) -> tuple[Tensors, Any]:
        return inputs[:1], None

    def pull(self, *arguments: Any) -> Any:
        raise not_traceable(self.name, "backward")

    def push(self, *arguments: Any) -> Any:
        raise not_traceable(self.name, "backward")
