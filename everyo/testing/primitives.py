"""Check primitives on their samples: ``python -m everyo.testing.primitives exp log``; without names, all."""

from __future__ import annotations

import copy
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everyo.core.cotangents import Partial
from everyo.core.dtypes import DIFFERENTIABLE, as_dtype, float64
from everyo.core.primitive import Primitive
from everyo.core.registry import get_primitive, primitives
from everyo.core.samples import Distinct, Integers, Sample, Values
from everyo.core.tape import OutputNode
from everyo.core.tensor import Tensor, wrap
from everyo.errors import DTypeError, EveryOError, UnsupportedOperationError, describe
from everyo.testing.checks import differentiated, dot_product_test, gradcheck, refuse_worst
from everyo.testing.metric import GradientCheckError
from everyo.testing.point import Point, pull

_DOUBLE = {"float32": "float64", "complex64": "complex128", "float16": "float64"}
# Allowed E: the same computation twice; two exact ways to one number; single precision against double.
_SAME, _EXACT, _SINGLE = 1e-12, 1e-8, 1e-4


def materialize(primitive: Primitive, sample: Sample, dtype: Any, seed: int) -> list[Any]:
    """Return the inputs of a sample as NumPy arrays (None and Python scalars as they are).

    Parameters
    ----------
    primitive : Primitive
        Its ``domain`` option bounds the random values: one pair, or a pair for each input.
    sample : Sample
        What to make.
    dtype : dtype
        Of the float inputs. For a complex one the real parts are those of the float case, and the
        imaginary parts lie in 0.1 to 0.5 or the negative of it, off the branch cuts.
    seed : int
        The values depend on it, on the primitive's name and on nothing else.
    """
    rng = np.random.default_rng([seed, zlib.crc32(primitive.name.encode())])
    dtype = as_dtype(dtype)
    arrays = []
    for i, x in enumerate(sample.inputs):
        domain = primitive.options.get("domain", (-2.0, 2.0))
        low, high = domain[min(i, len(domain) - 1)] if isinstance(domain[0], tuple) else domain
        arrays.append(_input(rng, x, low, high, dtype))
    return arrays


def _input(rng: Any, x: Any, low: float, high: float, dtype: Any) -> Any:
    if x is None or isinstance(x, (bool, int, float, complex)):
        return x
    if isinstance(x, Integers):
        return rng.integers(0, x.high, x.shape)
    if isinstance(x, Values):
        real = np.asarray(x.elements)
        if real.dtype.kind in "biu":
            return real
    elif isinstance(x, Distinct):
        count = int(np.prod(x.shape))
        spacing = max(0.1, (high - low) / max(count, 1))
        places = low + spacing * (rng.permutation(count) + rng.uniform(0.25, 0.75, count))
        real = places.reshape(x.shape)
    else:
        real = rng.uniform(low, high, x)
    if dtype.kind == "c" and real.dtype.kind != "c":
        real = real + 1j * rng.uniform(0.1, 0.5, real.shape) * rng.choice([-1.0, 1.0], real.shape)
    return np.asarray(real, dtype)


class Call:
    """A primitive on one sample, as a function of the inputs that it can be differentiated in."""

    def __init__(self, primitive: Primitive, sample: Sample, dtype: Any, seed: int = 0) -> None:
        self.primitive, self.sample = primitive, sample
        self.arrays = materialize(primitive, sample, dtype, seed)
        self.params = {k: as_dtype(v) if k == "dtype" else v for k, v in sample.params.items()}
        self.wrt = [i for i, a in enumerate(self.arrays) if self._differentiable(i, a)]
        self.points = [self.arrays[i] for i in self.wrt]

    def _differentiable(self, i: int, array: Any) -> bool:
        vjp = self.primitive.vjp
        if vjp is None or not _is_float(array):
            return False
        return callable(vjp) or (i < len(vjp) and vjp[i] is not None)

    def __call__(self, *floats: Any) -> Any:
        inputs = list(self.arrays)
        for i, x in zip(self.wrt, floats, strict=True):
            inputs[i] = x
        return self.primitive(*(wrap(x) if isinstance(x, np.ndarray) else x for x in inputs), **self.params)

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.sample.inputs))
        params = "".join(f", {k}={v!r}" for k, v in self.sample.params.items())
        return f"{self.primitive.name}({inputs}{params})"


def check_primitive(
    primitive: Primitive | str,
    *,
    dtype: Any = float64,
    orders: int = 2,
    samples: Sequence[Sample] | None = None,
    seed: int = 0,
) -> bool:
    """Check every derivative of a primitive on each of its samples.

    In double precision: the gradient against central differences (at a kink it must lie between the
    one-sided derivatives); forward against reverse mode, with all inputs moving and with each alone;
    each input's gradient alone against the gradient of all; the derivative of the pullback at a cotangent
    of 0 against forward mode; the gradient of the gradient against differences, up to `orders`. In single
    precision: the gradient against the one in double.

    Parameters
    ----------
    primitive : Primitive or str
        Its option ``tol`` widens the tolerance of the differences.
    dtype : dtype, default float64
        Of the float inputs. A primitive that refuses a complex dtype with a DTypeError or an
        UnsupportedOperationError passes.
    orders : int, default 2
        The highest order of derivative.
    samples : sequence of Sample, optional
        Instead of all that the primitive has.
    seed : int, default 0
        For the values.

    Returns
    -------
    bool
        True; False if the primitive refuses the complex dtype.

    Raises
    ------
    GradientCheckError
        With the sample and the worst entry.
    """
    if isinstance(primitive, str):
        primitive = get_primitive(primitive)
    if samples is None:
        samples = primitive.samples() if primitive.samples is not None else ()
    dtype = as_dtype(dtype)
    accepted = True
    for sample in samples:
        call = Call(primitive, sample, dtype, seed)
        try:
            with np.errstate(all="ignore"):
                accepted = _check_call(call, dtype, orders) and accepted
        except Exception as error:
            error.add_note(f"  sample:   {call}, {dtype}")
            raise
    return accepted


def _check_call(call: Call, dtype: Any, orders: int) -> bool:
    if dtype.kind == "c" and not _accepts(call):
        return False
    if not call.wrt or not any(r.dtype.kind in DIFFERENTIABLE for r in _results(call(*call.points))):
        _check_constant(call)
        return True
    _check_cotangents(call)
    if str(dtype) in _DOUBLE:
        _check_single(call, dtype)
        return True
    tol = call.primitive.options.get("tol")
    gradcheck(call, *call.points, tol=tol, kinks=True)
    point = Point(call, call.points, call.primitive.name)
    _check_each_alone(call, point)
    if call.primitive.jvp is not None:
        for tangents in _subsets(point.directions(0)):
            dot_product_test(point, tangents, point.push(tangents), 0, _EXACT)
    if dtype.kind == "c" and call.primitive.broadcasts and len(call.wrt) > 1:
        for i in range(len(call.wrt)):  # a real operand beside complex ones has a real gradient
            gradcheck(
                call, *(p.real if k == i else p for k, p in enumerate(call.points)), tol=tol, kinks=True
            )
    if any(np.isnan(r).any() for r in point.results):
        return True  # the mean of nothing: there is no derivative to differentiate again
    if orders > 1 and call.primitive.jvp is not None:
        _check_recorded_tangents(call, point)
        _check_tangents_transposed(call, point)
        _check_pullback_of_nothing(call, point)
    function: Callable[..., Any] = call
    arguments: list[Any] = call.points
    for order in range(2, orders + 1):
        function, arguments = differentiated(function, arguments, order)
        gradcheck(function, *arguments, tol=tol, kinks=True)
    return True


def _accepts(call: Call) -> bool:
    """Whether the primitive takes complex values, forward and backward, instead of refusing them."""
    try:
        if call.wrt:
            point = Point(call, call.points, call.primitive.name)
            leaves, results = point.recorded()
            pull(results, leaves, [wrap(w) for w in point.weights(0)], False)
        else:
            call(*call.points)
    except (DTypeError, UnsupportedOperationError) as error:
        if error.operation not in primitives():
            raise
        return False
    return True


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in DIFFERENTIABLE


def _results(results: Any) -> Sequence[Tensor]:
    return results if isinstance(results, (tuple, list)) else [results]


def _check_constant(call: Call) -> None:
    """Check that a result without derivative is one: it runs, and no gradient is recorded."""
    inputs = list(call.arrays)
    if call.primitive.vjp is None:
        inputs = [wrap(a).requires_grad_() if _is_float(a) else a for a in inputs]
    for k, result in enumerate(_results(call.primitive(*inputs, **call.params))):
        if isinstance(result, Tensor) and result.requires_grad:
            raise GradientCheckError(
                f"result {k} is recorded although it has no derivative",
                operation=call.primitive.name,
                expected="a result that does not require grad",
                found=f"a {result.dtype} tensor that does",
            )


def _check_cotangents(call: Call) -> None:
    """Check that the node itself passes on cotangents of the shape and dtype of its inputs."""
    point = Point(call, call.points, call.primitive.name)
    leaves, results = point.recorded()
    pairs = zip(results, point.weights(0), strict=True)
    node, seed = next((r.grad_node, w) for r, w in pairs if r.grad_node is not None)
    if isinstance(node, OutputNode):
        seed, node = {node.saved[0]: seed}, node.parents[0]
    needed = [leaves[i] for i in point.wrt]
    for i, (x, g) in enumerate(zip(needed, node.backward_fn(seed), strict=True)):
        g = g.settle() if isinstance(g, Partial) else g
        if g is not None and (tuple(g.shape), g.dtype) != (tuple(x.shape), x.dtype):
            raise GradientCheckError(
                f"the cotangent of input {i} does not fit the input",
                operation=call.primitive.name,
                inputs=point.description,
                input=i,
                expected=describe(x),
                found=describe(g),
            )


def _subsets(items: dict[int, Any]) -> list[dict[int, Any]]:
    """Return all items together, and each alone if there are several."""
    return [items] + ([{k: v} for k, v in items.items()] if len(items) > 1 else [])


def _check_each_alone(call: Call, point: Point) -> None:
    """Check that an input's gradient does not depend on which others require grad or are asked for."""
    if len(point.wrt) < 2:
        return
    weights = [wrap(w) for w in point.weights(0)]
    leaves, results = point.recorded()
    together = pull(results, leaves, weights, False)
    for i in point.wrt:
        alone, alone_results = point.recorded({i})
        all_leaves, all_results = point.recorded()
        for where, found in (
            ("alone requires grad", pull(alone_results, [alone[i]], weights, False)),
            ("alone is asked for", pull(all_results, [all_leaves[i]], weights, False)),
        ):
            message = f"the gradient of input {i} is another when it {where}"
            refuse_worst(message, point, i, found[0], together[i], _SAME)


def _check_recorded_tangents(call: Call, point: Point) -> None:
    """Check that forward mode is recorded too: ``<u, J v>`` has the gradient that ``<J' u, v>`` has."""
    weights = [wrap(w) for w in point.weights(0)]
    directions = point.directions(0)
    vectors = [wrap(v) for v in directions.values()]
    leaves, results = point.recorded()
    wanted = pull(pull(results, leaves, weights, True), leaves, vectors, False)
    leaves, _ = point.recorded()
    found = pull(point.push_tensors(leaves, directions), leaves, weights, False)
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        message = f"the second derivative of input {i} is another when a tangent is differentiated"
        refuse_worst(message, point, i, f, w, _EXACT)


def _check_tangents_transposed(call: Call, point: Point) -> None:
    """Check that a tangent is differentiated in its direction: that of ``<u, J v>`` is ``J' u``."""
    weights = [wrap(w) for w in point.weights(0)]
    leaves, results = point.recorded()
    wanted = pull(results, leaves, weights, False)
    moving = {i: wrap(v).requires_grad_() for i, v in point.directions(0).items()}
    found = pull(
        point.push_tensors([leaf.detach() for leaf in leaves], moving), [*moving.values()], weights, False
    )
    for i, f in zip(moving, found, strict=True):
        refuse_worst(f"the tangent is not linear in that of input {i}", point, i, f, wanted[i], _EXACT)


def _check_pullback_of_nothing(call: Call, point: Point) -> None:
    """Check that the pullback is linear at a cotangent of 0 too: its derivative there is the pushforward."""
    leaves, results = point.recorded()
    needed = [leaves[i] for i in point.wrt]
    seeds = [wrap(np.zeros_like(w)).requires_grad_() for w in point.weights(0)]
    directions = point.directions(0)
    pulled = pull(results, needed, seeds, True)
    found = pull(pulled, seeds, [wrap(directions[i]) for i in point.wrt], False)
    for k, (f, w) in enumerate(zip(found, point.push(directions), strict=True)):
        refuse_worst(f"the pullback is not linear at a cotangent of 0 of result {k}", point, k, f, w, _EXACT)


def _check_single(call: Call, dtype: Any) -> None:
    """Check a single-precision gradient against the double-precision one at the same point."""
    point = Point(call, call.points, call.primitive.name)
    double = _DOUBLE[str(dtype)]
    wide_call = copy.copy(call)
    wide_call.arrays = [a.astype(double) if _is_float(a) else a for a in call.arrays]
    wide_point = Point(wide_call, [p.astype(double) for p in call.points], call.primitive.name)
    gradients = []
    for at in (point, wide_point):
        leaves, results = at.recorded()
        weights = [wrap(w.astype(r.dtype)) for w, r in zip(point.weights(0), results, strict=True)]
        gradients.append(pull(results, leaves, weights, False))
    for i, (g, reference) in enumerate(zip(*gradients, strict=True)):
        message = f"the {dtype} gradient of input {i} differs from the {double} one"
        refuse_worst(message, point, i, g, reference, _SINGLE)


def main(names: Sequence[str]) -> int:
    """Check the primitives of these names, or all, and print a line for each; return the exit status."""
    failed = 0
    for name in names or sorted(primitives()):
        primitive = get_primitive(name)
        kinds = []
        for dtype in ("float64", "float32", "complex128"):
            try:
                if check_primitive(primitive, dtype=dtype):
                    kinds.append(dtype)
            except (EveryOError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                failed += 1
                notes = "\n".join(getattr(error, "__notes__", ()))
                print(f"FAIL {name} {dtype}\n  {type(error).__name__}: {error}\n{notes}")
        count = len(primitive.samples() if primitive.samples else ())
        print(f"{'    ' if count else 'NONE'} {name}: {count} samples, {' '.join(kinds)}")
    print(f"{failed} failed" if failed else "all right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
