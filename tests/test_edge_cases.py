"""Edge cases from public reports against other engines: values in data/edge_cases.json, behaviours here.

The gradients in the file are of ``sum(seed * expr)`` for the names in ``wrt``; null is not checked.
"""

from __future__ import annotations

import copy
import json
import pathlib
import pickle
import types
import weakref

import numpy as np
import pytest

import everyo as eo
from everyo.core.cotangents import Scattered

CASES = json.loads((pathlib.Path(__file__).parent / "data" / "edge_cases.json").read_text())

NAMES = [
    "abs", "arctan2", "broadcast_to", "clip", "cos", "cumprod", "dot", "einsum", "exp", "log", "logaddexp",
    "logsumexp", "matmul", "max", "maximum", "mean", "prod", "relu", "repeat", "reshape", "softmax", "sqrt",
    "stack", "std", "sum", "tensordot", "trace", "var", "where",
]  # fmt: skip


def namespace():
    """Return what the expressions call ``np``: our functions under NumPy's names."""
    np_ = types.SimpleNamespace(**{name: getattr(eo, name) for name in NAMES})
    np_.linalg = eo.linalg
    np_.array = eo.asarray
    return np_


def numbers(value):
    """Return JSON numbers as an array; infinities and NaN are strings there."""
    return np.array(value, dtype=np.float64) if not isinstance(value, str) else np.array(float(value))


def evaluate(case, point):
    dtype = case["dtype"]
    wrt = case["wrt"]
    values = {k: eo.tensor(numbers(v).astype(dtype), requires_grad=k in wrt) for k, v in point.items()}
    consts = {k: eo.tensor(numbers(v).astype(dtype)) for k, v in case.get("consts", {}).items()}
    out = eval(case["expr"], {"np": namespace(), **values, **consts})  # our own data
    return values, out


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # plain log(0), 0/0 warn as NumPy does
@pytest.mark.parametrize("case", CASES, ids=[f"{c['id']}-{c['kind']}" for c in CASES])
def test_value_and_gradient(case):
    for point in case["points"]:
        values, out = evaluate(case, point)
        tolerance = {"rtol": 1e-12, "atol": 1e-300} if case["dtype"] == "float64" else {"rtol": 1e-6}
        if case.get("expected_value") is not None:
            np.testing.assert_allclose(out.detach().numpy(), numbers(case["expected_value"]), **tolerance)
        out.backward(np.broadcast_to(numbers(case.get("seed", 1.0)), out.shape).astype(case["dtype"]))
        for name, expected in zip(case["wrt"], case["expected_grads"], strict=True):
            if expected is None:
                continue
            gradient = values[name].grad
            assert gradient.dtype == case["dtype"]
            assert gradient.shape == values[name].shape
            np.testing.assert_allclose(gradient.numpy(), numbers(expected), **tolerance)


# Forward mode meets x**0.5 at 0 with a tangent of 1: its slope is infinite, and what follows cannot know.
# And where singular values are equal it cannot know that what follows does not depend on the vectors.
FORWARD = [c for c in CASES if c["id"] not in ("B031", "B119")]


@pytest.mark.parametrize("case", FORWARD, ids=[f"{c['id']}-{c['kind']}" for c in FORWARD])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_forward_mode_agrees(case):
    for point in case["points"]:
        names = list(case["wrt"])
        consts = {k: eo.tensor(numbers(v)) for k, v in case.get("consts", {}).items()}
        others = {k: eo.tensor(numbers(v)) for k, v in point.items() if k not in names}

        def f(*args, names=names, consts=consts, others=others, case=case):
            scope = {"np": namespace(), **dict(zip(names, args, strict=True)), **consts, **others}
            out = eval(case["expr"], scope)
            return eo.sum(out * eo.tensor(numbers(case.get("seed", 1.0))))

        primals = [eo.tensor(numbers(point[name])) for name in names]
        for k, expected in enumerate(case["expected_grads"]):
            if expected is None:
                continue
            gradient = numbers(expected)
            for index in np.ndindex(gradient.shape):
                tangents = [np.zeros(p.shape) for p in primals]
                tangents[k][index] = 1.0
                _, tangent = eo.jvp(f, primals, [eo.tensor(t) for t in tangents])
                limit = 1e-5 if case["dtype"] == "float32" else 1e-12
                np.testing.assert_allclose(tangent.numpy(), gradient[index], rtol=limit, atol=1e-300)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(), (2,), (0,)])
def test_second_derivative_of_sinc_at_zero(dtype, shape):  # B021
    x = eo.tensor(np.zeros(shape, dtype), requires_grad=True)
    value = eo.sinc(x)
    (slope,) = eo.autograd.grad(eo.sum(value), x, create_graph=True)
    (second,) = eo.autograd.grad(eo.sum(slope), x)
    for found, expected in ((value, 1.0), (slope, 0.0), (second, -3.289868133696453)):
        assert (found.shape, found.dtype) == (shape, dtype)
        np.testing.assert_allclose(found.detach().numpy(), np.full(shape, expected), rtol=2e-7)
    pushed = eo.jvp(lambda x: eo.jvp(eo.sinc, (x,), (eo.ones_like(x),))[1], (x,), (eo.ones_like(x),))[1]
    np.testing.assert_allclose(pushed.detach().numpy(), second.numpy(), rtol=1e-7)


def test_fourth_derivative_of_a_gaussian_at_zero():  # B033
    x = eo.tensor(0.0, dtype=eo.float64, requires_grad=True)
    g = eo.exp(-(x**2))
    found = []
    for _ in range(4):
        (g,) = eo.autograd.grad(g, x, create_graph=True)
        found.append(g.item())
    assert found == [0.0, -2.0, 0.0, 12.0]


DIRECTIONS = {
    "reverse": eo.grad,
    "forward": lambda f: lambda x: eo.jvp(f, (x,), (eo.ones_like(x),))[1],
}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_nested_derivatives_of_a_gaussian_at_zero(direction):  # B033
    f, found = lambda x: eo.exp(-(x**2)), []
    for _ in range(4):
        f = DIRECTIONS[direction](f)
        found.append(f(eo.tensor(0.0, dtype=eo.float64)).item())
    assert found == [0.0, -2.0, 0.0, 12.0]


@pytest.mark.parametrize("start", [[0.0, 0.0, 3.0], [0.0, 5.0, 3.0]])
def test_hessian_of_a_product_with_zeros(start):  # B037
    a, b, c = start
    hessian = eo.hessian(eo.prod)(eo.tensor(start, dtype=eo.float64))
    assert hessian.tolist() == [[0.0, c, b], [c, 0.0, a], [b, a, 0.0]]
    third = eo.jacfwd(eo.hessian(eo.prod))(eo.tensor(start, dtype=eo.float64))
    places = {(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)}
    assert {tuple(i) for i in np.argwhere(third.numpy() != 0)} == places
    assert {third[i].item() for i in places} == {1.0}


def test_hessian_of_cumprod_with_a_zero():  # B043
    whole = eo.hessian(lambda x: eo.sum(eo.cumprod(x)))(eo.tensor([2.0, 0.0, 3.0], dtype=eo.float64))
    assert whole.tolist() == [[0.0, 4.0, 0.0], [4.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    x = eo.tensor([2.0, 0.0, 3.0], dtype=eo.float64, requires_grad=True)
    (g,) = eo.autograd.grad(eo.sum(eo.cumprod(x)), x, create_graph=True)
    rows = [eo.autograd.grad(g[i], x, retain_graph=True)[0].tolist() for i in range(3)]
    assert rows == [[0.0, 4.0, 0.0], [4.0, 0.0, 2.0], [0.0, 2.0, 0.0]]


def test_cross_entropy_of_an_all_ignored_batch():  # B053
    x = eo.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    eo.nn.functional.cross_entropy(x, eo.tensor([-100]), ignore_index=-100).backward()
    assert x.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_assignment_to_a_repeated_index_keeps_the_last_value():  # B057
    v = eo.tensor([1.0, 2.0], requires_grad=True)
    z = eo.zeros(3)
    z[[0, 0]] = v
    assert z.tolist() == [2.0, 0.0, 0.0]
    eo.sum(z).backward()
    assert v.grad.tolist() == [0.0, 1.0]


def test_masked_in_place_update():  # B061
    x = eo.tensor(np.arange(9.0), requires_grad=True)
    b = eo.reshape(x, (3, 3)) * 1
    b[b < 4] *= 2
    eo.sum(b).backward()
    assert x.grad.tolist() == [2.0] * 4 + [1.0] * 5


def test_two_einsums_of_one_tensor():  # B065
    start = np.arange(9.0).reshape(3, 3)
    x = eo.tensor(start, requires_grad=True)
    first = eo.einsum("ij,jk->ik", x, x)
    eo.einsum("ij,jk->ik", x, x)
    eo.sum(first).backward()
    assert x.grad.tolist() == [[12, 21, 30], [15, 24, 33], [18, 27, 36]]
    np.testing.assert_array_equal(x.detach().numpy(), start)


def test_result_filled_in_a_loop():  # B067
    start = np.arange(15.0).reshape(5, 3) / 7
    loop, whole = (eo.tensor(start, requires_grad=True) for _ in range(2))
    result = eo.zeros(5, dtype=eo.float64)
    for m in range(5):
        result[m] = eo.sum(loop[m] * loop[0])
    eo.sum(result).backward()
    eo.sum(whole * whole[0]).backward()
    np.testing.assert_allclose(loop.grad.numpy(), whole.grad.numpy(), rtol=1e-14)


def test_put_along_an_argsort():  # B071
    w = eo.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0], [9.0, 7.0, 8.0]], requires_grad=True)
    out = eo.put_along_axis(
        eo.zeros((3, 3)), eo.argsort(w, axis=1)[:, :1], 2 * eo.sum(w, axis=1, keepdims=True), axis=1
    )
    eo.sum(out).backward()
    assert w.grad.tolist() == [[2.0] * 3] * 3


def test_integer_target_in_forward_mode():  # B111
    target = eo.tensor([1, 2])
    value, tangent = eo.jvp(
        lambda a: eo.mean((a - target) ** 2), (eo.tensor([2.0, 4.0]),), (eo.tensor([1.0, 0.0]),)
    )
    assert (value.item(), tangent.item()) == (2.5, 1.0)


def test_two_spellings_of_a_complex_modulus():  # B113
    gradients = []
    for modulus in (eo.abs, lambda z: eo.sqrt(eo.real(z) ** 2 + eo.imag(z) ** 2)):
        z = eo.tensor(np.array(1 + 0.5j), requires_grad=True)
        modulus(z).backward()
        gradients.append(z.grad.item())
    assert gradients[0] == pytest.approx(0.894427191 + 0.447213595j, abs=1e-9)
    assert gradients[1] == pytest.approx(gradients[0], abs=1e-14)


def test_real_input_through_a_complex_contraction():  # B115
    x = eo.tensor(np.ones(2), requires_grad=True)
    (eo.abs(eo.tensordot(x, eo.tensor(np.array([1, 1j])), axes=([0], [0]))) ** 2).backward()
    assert x.grad.dtype == eo.float64
    np.testing.assert_allclose(x.grad.numpy(), [2.0, 2.0], rtol=1e-14)


def test_two_passes_over_one_graph():  # B125
    x = eo.tensor(3.0, requires_grad=True)
    y = x * x
    z = 2 * y
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.item() == 24.0


def test_reference_counting_frees_a_graph():  # B127
    x = eo.ones(3, requires_grad=True)
    y = eo.sum(x * x)
    node = weakref.ref(y.grad_node)
    del y
    assert node() is None


def test_second_derivative_of_a_linear_function():  # B131
    x = eo.tensor(1.0, requires_grad=True)
    (g,) = eo.autograd.grad(2 * x, x, create_graph=True)
    assert g.item() == 2.0
    assert eo.autograd.grad(g + 0 * x, x)[0].item() == 0.0
    for derivative in DIRECTIONS.values():
        assert derivative(derivative(lambda x: 2 * x))(eo.tensor(1.0)).item() == 0.0


def test_deepcopy_and_pickle_of_a_leaf():  # B133
    a = eo.tensor([1.0], requires_grad=True)
    (a * 1).backward()
    b = copy.deepcopy(a)
    b.grad *= 5
    assert (a.grad.item(), b.grad.item()) == (1.0, 5.0)
    assert b.requires_grad
    assert b.is_leaf
    restored = pickle.loads(pickle.dumps(a))
    assert restored.requires_grad
    assert restored.tolist() == [1.0]
    for copying in (copy.deepcopy, pickle.dumps):
        with pytest.raises(eo.GraphStateError, match="detach"):
            copying(a * 2)


def test_numpy_on_the_left_never_loses_the_graph():  # B137
    x = eo.tensor(np.ones(5), requires_grad=True)
    w = np.arange(5.0)
    eo.sum(w * x).backward()
    assert x.grad.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises((eo.EveryOError, TypeError)):
        w.T.dot(x)


def test_the_inner_derivative_is_not_confused_with_the_outer():  # B139
    def derivative(f):
        def df(x):
            inner = x * 1 if isinstance(x, eo.Tensor) else eo.tensor(x, requires_grad=True)
            return eo.autograd.grad(f(inner), inner, create_graph=True)[0]

        return df

    outer = derivative(lambda x: x * derivative(lambda y: x + y)(x))
    assert outer(5.0).item() == 1.0
    pushed = eo.jvp(
        lambda x: x * eo.jvp(lambda y: x + y, (x,), (eo.ones_like(x),))[1],
        (eo.tensor(5.0),),
        (eo.tensor(1.0),),
    )[1]
    assert pushed.item() == 1.0


@pytest.mark.parametrize("outer", DIRECTIONS)
@pytest.mark.parametrize("inner", DIRECTIONS)
def test_nested_transformations_are_not_confused(inner, outer):  # B139
    d, e = DIRECTIONS[inner], DIRECTIONS[outer]
    five = eo.tensor(5.0)
    assert e(lambda x: x * d(lambda y: x + y)(x))(five).item() == 1.0
    assert e(lambda x: d(lambda y: x * y)(five))(five).item() == 1.0


@pytest.mark.parametrize("direction", [*DIRECTIONS, "backward"])
def test_a_scalar_that_a_mapped_function_captures(direction):  # B141
    def f(z):
        return eo.sum(eo.vmap(lambda v: eo.logaddexp(z, eo.sum(v) + z))(eo.ones((3, 2), dtype=eo.float64)))

    z = eo.tensor(0.1, dtype=eo.float64, requires_grad=direction == "backward")
    value = f(z)
    if direction == "backward":
        value.backward()
    gradient = z.grad if direction == "backward" else DIRECTIONS[direction](f)(z)
    assert value.item() == pytest.approx(6.680784033128918, rel=1e-14)
    assert gradient.shape == ()
    assert gradient.item() == pytest.approx(3.0, rel=1e-14)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_first_ten_derivatives(direction):  # B143: by the Leibniz formula
    expected = [
        6.657214466540665, 57.30418421107654, 434.62205348891035, 2829.2811026750455, 15114.091238432047,
        60116.06910700747, 123761.52018711921, -388714.78143845784, -4761145.89704771, -19579430.576962277,
    ]  # fmt: skip
    f, found = lambda t: 0.3 * eo.sin(t) * t**10, []
    for _ in expected:
        f = DIRECTIONS[direction](f)
        found.append(f(eo.tensor(1.1, dtype=eo.float64)).item())
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_a_hessian_is_no_gradient_of_a_gradient():  # B145
    def f(w):
        return w[0] ** 2 + w[1] ** 2

    w = eo.tensor([2.0, 2.0], dtype=eo.float64)
    value, hessian = f(w), eo.hessian(f)(w)
    assert value.item() == 8.0
    assert hessian.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    with pytest.raises(eo.ShapeError) as error:
        eo.grad(eo.grad(f))(w)
    assert "eo.hessian" in error.value.remedy
    assert "shape (2,)" in error.value.found


def test_a_python_loop_over_elements_writes_one_gradient(monkeypatch):  # B151
    settled = []
    settle = Scattered.settle
    monkeypatch.setattr(Scattered, "settle", lambda self: settled.append(len(self.values)) or settle(self))
    n = 2000
    x = eo.tensor(np.arange(float(n)), requires_grad=True)
    total = 0
    for i in range(n):
        total = total + x[i] ** 2
    total.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * np.arange(float(n)))
    assert settled == [n]  # n reads, one array written


def test_gradient_of_a_vector_names_the_ways_out():  # B153
    x = eo.ones(2, requires_grad=True)
    with pytest.raises(eo.ShapeError) as error:
        (x * 2).backward()
    assert all(word in str(error.value) for word in ("(2,)", ".sum()", "jacobian", "gradient="))


def test_grad_of_a_vector_function_names_the_ways_out():  # B153
    with pytest.raises(eo.ShapeError) as error:
        eo.grad(lambda x: x * 2)(eo.ones(2))
    assert "(2,)" in error.value.found
    assert all(word in error.value.remedy for word in (".sum()", "eo.jacobian", "cotangent"))
    assert error.value.line.endswith("eo.grad(lambda x: x * 2)(eo.ones(2))")


def test_a_wide_compiled_program_on_new_data_and_changed_state():  # B147
    scale, offsets = eo.tensor([0.5, -1.5, 2.0]), np.array([1.0, 2.0, 3.0], np.float32)

    def wide(x, y):
        shared = x * scale
        terms = [eo.sin(shared * k + y) * (x + offsets) - shared / (k + 1.0) for k in range(40)]
        return sum(terms), eo.stack(terms[::7]).max(axis=0)

    compiled = eo.compile(wide)
    rng = np.random.default_rng(147)
    for call in range(3):
        x, y = (eo.tensor(rng.standard_normal(3).astype(np.float32)) for _ in range(2))
        for found, expected in zip(compiled(x, y), wide(x, y)):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5, atol=2e-5)
        scale[call] = 3.0 + call  # the program reads it again at its next call
    assert compiled.cache_info().misses == 1
