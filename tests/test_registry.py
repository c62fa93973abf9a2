"""Every primitive, on the samples that it was declared with: whatever the registry holds is checked."""

import weakref

import numpy as np
import pytest

import everyo as eo
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.primitive import rule_arguments
from everyo.core.registry import primitives
from everyo.core.tensor import wrap
from everyo.testing import gradcheck
from everyo.testing.checks import differentiated
from everyo.testing.point import Point, pull
from everyo.testing.primitives import Call, check_primitive

PRIMITIVES = primitives()
DIFFERENTIATED = [name for name, p in PRIMITIVES.items() if p.vjp is not None]

every_primitive = pytest.mark.parametrize("name", sorted(PRIMITIVES))
every_differentiated = pytest.mark.parametrize("name", sorted(DIFFERENTIATED))


def calls(name, dtype="float64"):
    """Return the primitive's calls, one for each sample."""
    primitive = PRIMITIVES[name]
    return [Call(primitive, sample, dtype) for sample in primitive.samples()]


def differentiable_calls(name, dtype="float64"):
    """Return the calls that have something to differentiate."""
    return [call for call in calls(name, dtype) if call.wrt]


def gradients(call, points):
    """Return results and gradients, as arrays, of a call on leaves that hold exactly the given arrays."""
    leaves = [wrap(p).requires_grad_() for p in points]
    results = results_of(call(*leaves))
    rng = np.random.default_rng(3)
    weights = [wrap(np.asarray(rng.uniform(0.5, 1.5, r.shape), r.dtype)) for r in results]
    return [r.data for r in results], [g.data for g in pull(results, leaves, weights, False)]


def is_array(x):
    return isinstance(x, np.ndarray)


def results_of(results):
    results = results if isinstance(results, tuple) else (results,)
    return [r for r in results if r.dtype.kind in DIFFERENTIABLE]


@every_primitive
def test_it_has_samples_and_they_run(name):
    primitive = PRIMITIVES[name]
    assert primitive.samples is not None, "declare samples="
    assert primitive.samples(), "declare at least one sample"
    for call in calls(name):
        call(*call.points)
    if primitive.vjp is not None:
        assert any(c.wrt for c in calls(name)), "no sample has an input to differentiate"


@every_primitive
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_derivatives(name, dtype):
    """Whatever accepts complex numbers must be right about them; refusing them is right too."""
    assert check_primitive(name, dtype=dtype) or dtype.startswith("complex")


THIRD_ORDER = {
    "exp": lambda x: eo.exp(x * 0.5),
    "log": lambda x: eo.log(x + 3),
    "sin": lambda x: eo.sin(x),
    "tanh": lambda x: eo.tanh(x),
    "power": lambda x: (x + 3) ** 2.5,
    "divide": lambda x: x / (x * x + 1),
    "matmul": lambda x: eo.matmul(x, eo.matmul(x.mT, x)),
    "prod": lambda x: eo.prod(x, axis=1),
    "logsumexp": lambda x: eo.logsumexp(x, axis=0),
    "softmax": lambda x: eo.softmax(x, axis=-1),
    "sigmoid": lambda x: eo.sigmoid(x),
    "std": lambda x: eo.std(x, axis=0),
    "cumprod": lambda x: eo.cumprod(x, axis=1),
    "einsum": lambda x: eo.einsum("ij,ik,jl->kl", x, x, x.mT),
    "getitem": lambda x: x[:, [0, 0, 2]] ** 3,
    "max": lambda x: eo.max(x, axis=1) ** 3,
}


@pytest.mark.parametrize("name", THIRD_ORDER)
def test_third_order(name):
    function, arguments = THIRD_ORDER[name], [eo.tensor(np.array([[0.3, -0.7, 1.1], [0.9, 0.4, -1.3]]))]
    for order in range(3):
        assert gradcheck(function, *arguments)
        function, arguments = differentiated(function, arguments, order)


@every_differentiated
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_have_dtype_and_shape_of_their_tensor(name, dtype):
    for call in differentiable_calls(name, dtype):
        for point, gradient in zip(call.points, gradients(call, call.points)[1], strict=True):
            assert isinstance(gradient, np.ndarray)
            assert (gradient.shape, gradient.dtype) == (point.shape, point.dtype), str(call)


@every_differentiated
def test_results_keep_the_float_dtype(name):
    for call in differentiable_calls(name, "float32"):
        if "dtype" not in call.params and not any(a.dtype.kind == "i" for a in call.arrays if is_array(a)):
            for result in results_of(call(*map(wrap, call.points))):
                assert result.dtype in (eo.float32, eo.complex64), str(call)


LAYOUTS = {
    "fortran": lambda a: np.asfortranarray(a),
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "negative strides": lambda a: a[(slice(None, None, -1),) * a.ndim].copy()[
        (slice(None, None, -1),) * a.ndim
    ],
    "transposed": lambda a: a.swapaxes(0, -1).copy().swapaxes(0, -1),
    "shifted": lambda a: np.concatenate([a[..., :1], a], axis=-1)[..., 1:],
}


@every_differentiated
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_do_not_matter(name, layout):
    for call in differentiable_calls(name):
        others = [LAYOUTS[layout](p) if p.ndim else p for p in call.points]
        for p, o in zip(call.points, others, strict=True):
            np.testing.assert_array_equal(p, o)
        for wanted, found in zip(gradients(call, call.points), gradients(call, others), strict=True):
            for w, f in zip(wanted, found, strict=True):
                np.testing.assert_allclose(f, w, rtol=1e-12, atol=1e-12, err_msg=str(call))


@every_differentiated
def test_inputs_and_cotangents_are_never_changed(name):
    """Read-only arrays make a write raise; the comparison catches one that went round the flag."""
    for call in differentiable_calls(name):
        held = [a for a in call.arrays if isinstance(a, np.ndarray)]
        before = [a.tobytes() for a in held]
        for array in held:
            array.flags.writeable = False
        point = Point(call, call.points, name)
        weights = point.weights(0)
        for weight in weights:
            weight.flags.writeable = False
        marks = [w.tobytes() for w in weights]
        leaves = [wrap(p).requires_grad_() for p in call.points]
        results = results_of(call(*leaves))
        kept = [r.data.tobytes() for r in results]
        pull(results, leaves, [wrap(w) for w in weights], False)
        assert [a.tobytes() for a in held] == before, str(call)
        assert [w.tobytes() for w in weights] == marks, str(call)
        assert [r.data.tobytes() for r in results] == kept, str(call)


@every_differentiated
def test_a_gradient_shares_no_memory_with_values(name):
    """Writing into a gradient (shared with NumPy) must change neither an input nor a result."""
    for call in differentiable_calls(name):
        leaves = [wrap(p.copy()).requires_grad_() for p in call.points]
        results = results_of(call(*leaves))
        weights = [wrap(np.ones(r.shape, r.dtype)) for r in results]
        found = [g.data for g in pull(results, leaves, weights, False)]
        others = [x.data for x in leaves] + [r.data for r in results]
        for g in found:
            assert g.size < 2 or 0 not in g.strides, str(call)
            assert not any(np.shares_memory(g, o) for o in others), str(call)


@every_primitive
def test_nothing_is_recorded_under_no_grad(name):
    for call in calls(name):
        floats = [
            wrap(a).requires_grad_() if getattr(a, "dtype", None) is not None and a.dtype.kind in "fc" else a
            for a in call.arrays
        ]
        for mode in (eo.no_grad, eo.inference_mode):
            with mode():
                results = call.primitive(*floats, **call.params)
            for result in results if isinstance(results, tuple) else (results,):
                assert getattr(result, "grad_node", None) is None


def saved_names(primitive):
    """Return the names of all that the vjp rules read."""
    rules = [primitive.vjp] if callable(primitive.vjp) else [r for r in primitive.vjp if r is not None]
    return {argument for rule in rules for argument in rule_arguments(rule)}


@every_differentiated
def test_a_node_keeps_only_what_its_rules_name(name):
    primitive = PRIMITIVES[name]
    names = saved_names(primitive)
    for call in differentiable_calls(name):
        owned = {i: np.array(call.arrays[i]) for i in call.wrt}
        references = {i: weakref.ref(a) for i, a in owned.items()}
        leaves = [wrap(owned.pop(i)).requires_grad_() for i in call.wrt]
        results = call(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        node = next(r.grad_node for r in results if r.grad_node is not None)
        outs = [weakref.ref(r.data) for r in results]
        node = node.parents[0] if len(results) > 1 else node
        del results, leaves
        for i, reference in references.items():
            label = primitive.input_names[min(i, len(primitive.input_names) - 1)]
            if label not in names and call.arrays[i].size and not keeps_views(node, reference()):
                assert reference() is None, f"{call} keeps {label}"
        if "out" not in names and not any(label in names for label in primitive.input_names):
            assert all(out() is None for out in outs), f"{call} keeps its result"
        arrays = [s for s in node.saved if isinstance(s, np.ndarray)]
        assert len(arrays) <= len(names), str(call)


def keeps_views(node, array):
    """Whether a named residual is a view of `array` (the result of reshape shares its input's memory)."""
    return array is not None and any(
        isinstance(s, np.ndarray) and np.shares_memory(s, array) for s in node.saved
    )


@pytest.mark.parametrize("name", [n for n in sorted(DIFFERENTIATED) if PRIMITIVES[n].broadcasts])
def test_mixed_dtypes_send_back_their_own(name):
    for call in differentiable_calls(name):
        if len(call.points) < 2:
            continue
        mixed = [p.astype(np.float32) if i % 2 else p for i, p in enumerate(call.points)]
        for m, g in zip(mixed, gradients(call, mixed)[1], strict=True):
            assert g.dtype == m.dtype, str(call)
