"""What ``x += v`` does to tensors of shape (): it changes objects that were made, and never results."""

import copy

import numpy as np
import pytest

import everyo as eo


def series(x):
    """The sine of `x` by its series, as written for Python's numbers."""
    term = total = x
    n = 1
    while abs(term) > 1e-17:
        term *= -x * x / ((n + 1) * (n + 2))
        total += term
        n += 2
    return total


def aliased(x):
    y = x
    y += 1
    return y * x


def of_a_result(x):
    y = x * 2.0
    z = y
    z *= 3.0
    return y * z


TRANSFORMED = {
    "grad": lambda f, x: eo.grad(f)(x),
    "value_and_grad": lambda f, x: eo.value_and_grad(f)(x)[1],
    "jvp": lambda f, x: eo.jvp(f, (x,), (1.0,))[1],
    "jacfwd": lambda f, x: eo.jacfwd(f)(x),
    "vjp": lambda f, x: eo.vjp(f, x)[1](1.0)[0],
    "linearize": lambda f, x: eo.linearize(f, x)[1](1.0),
    "nested": lambda f, x: eo.grad(lambda a: eo.grad(lambda b: f(b) * a)(x))(0.0),
    "checkpoint": lambda f, x: eo.grad(eo.checkpoint(f))(x),
}
COMPILED = {name: lambda f, x, t=t: eo.compile(lambda x: t(f, x))(x) for name, t in TRANSFORMED.items()}


@pytest.mark.parametrize("kind", [float, np.float64])
@pytest.mark.parametrize("transformed", TRANSFORMED.values(), ids=TRANSFORMED)
def test_numbers_are_not_changed(kind, transformed):
    x = kind(0.5)
    np.testing.assert_allclose(float(series(x)), np.sin(0.5), rtol=1e-15)
    np.testing.assert_allclose(float(transformed(series, x)), np.cos(0.5), rtol=2e-7)
    assert float(transformed(aliased, x)) == 2 * x + 1
    assert float(transformed(of_a_result, x)) == 24 * x


@pytest.mark.parametrize("kind", [float, np.float64])
@pytest.mark.parametrize("transformed", COMPILED.values(), ids=COMPILED)
def test_numbers_are_not_changed_in_compiled_code(kind, transformed):
    x = kind(0.5)
    assert float(transformed(aliased, x)) == 2 * x + 1
    assert float(transformed(of_a_result, x)) == 24 * x


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", [name for name in TRANSFORMED if name != "checkpoint"])  # which refuses
def test_tensors_and_arrays_are_changed(name, compiled):
    transformed = (COMPILED if compiled else TRANSFORMED)[name]
    for made in (lambda v: eo.tensor(v, dtype="float64"), np.array):
        plain = made(3.0)
        assert float(aliased(plain)) == 16.0
        assert float(plain) == 4.0
        assert float(transformed(aliased, made(3.0))) == 2 * (3.0 + 1)
        assert float(transformed(of_a_result, made(3.0))) == 24 * 3.0


def test_one_program_does_not_serve_numbers_that_change_and_those_that_do_not():
    f = eo.compile(aliased)
    result, tensor, array = eo.tensor([1.0, 2.0]).sum(), eo.tensor(3.0), np.array(3.0, "float32")
    for _ in range(3):
        assert [f(result).item(), result.item()] == [12.0, 3.0]
        assert [f(np.float32(3.0)).item(), f(tensor).item(), tensor.item()] == [12.0, 16.0, 4.0]
        assert [f(array).item(), array.item()] == [16.0, 4.0]
        tensor -= 1
        array -= 1


def several(x):
    y = x
    y *= 2
    y += 1
    return y * x


@pytest.mark.parametrize("made", [lambda v: eo.tensor(v, dtype="float64"), np.array, np.float64])
def test_several_statements_change_one_argument(made):
    plain, given = made(3.0), made(3.0)
    assert float(several(plain)) == float(eo.compile(several)(given))
    assert float(plain) == float(given)


@pytest.mark.parametrize("made", [eo.custom_vjp, eo.custom_jvp], ids=["custom_vjp", "custom_jvp"])
def test_functions_with_rules_are_given_values(made):
    f = made(aliased)
    if made is eo.custom_vjp:
        f.defvjp(lambda x: (aliased(x), None), lambda residuals, g: (g,))
    else:
        f.defjvp(lambda primals, tangents: (aliased(*primals), tangents[0]))
    ways = f, eo.compile(f), lambda x: eo.value_and_grad(f)(x)[0], eo.compile(lambda x: f(x))
    assert [way(eo.tensor(3.0)).item() for way in ways] == [12.0] * 4


def test_results_take_the_shape_and_dtype_that_a_name_is_given():
    x = eo.tensor([1.0, 2.0])
    total = previous = x.sum()
    total += x
    assert (total.tolist(), previous.item()) == ([4.0, 5.0], 3.0)
    count = eo.argmax(x)
    count += 0.5
    assert count.item() == 1.5
    best = x.max()
    best += np.float64(1.0)
    assert (best.item(), best.dtype) == (3.0, (x.max() + np.float64(1.0)).dtype)


MADE = {
    "tensor": lambda s: eo.tensor(3.0),
    "zeros": lambda s: eo.zeros(()),
    "zeros_like": lambda s: eo.zeros_like(s),
    "full": lambda s: eo.full((), 3.0),
    "full of a tensor": lambda s: eo.full((), s * 1),
    "asarray": lambda s: eo.asarray(np.array(3.0)),
    "from_numpy": lambda s: eo.from_numpy(np.array(3.0)),
    "from_dlpack": lambda s: eo.from_dlpack(np.array(3.0)),
    "clone": lambda s: s.clone(),
    "copy": lambda s: eo.copy(s),
    "method copy": lambda s: s.copy(),
    "deepcopy": lambda s: copy.deepcopy(s),
    "frozen parameter": lambda s: eo.nn.Parameter(3.0, requires_grad=False),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_was_made_is_changed(make):
    def f(s):
        made = make(s)
        other = made
        other += 1
        return made - other

    s = eo.tensor([1.0, 2.0]).sum()
    assert f(s).item() == 0.0
    if make is not MADE["frozen parameter"]:
        assert eo.compile(f)(s).item() == 0.0
    assert s.item() == 3.0


def test_gradients_are_changed():
    x = eo.tensor(2.0, requires_grad=True)
    for _ in range(2):
        (x * x).backward()
    for p in (x,):
        gradient = p.grad
        gradient *= 0.5
    assert x.grad.item() == 4.0

    def hook(gradient):
        gradient *= 10

    x.grad = None
    x.register_hook(hook)
    (x * x).backward()
    assert x.grad.item() == 40.0
    with eo.no_grad():
        for p in (x,):
            p -= 0.5
    assert (x.item(), x.requires_grad) == (1.5, True)


@pytest.mark.parametrize("loop", ["scan", "fori_loop", "while_loop"])
def test_the_state_of_a_loop_is_a_result(loop):
    def f(x):
        def body(state):
            old = state
            state += x
            return state * old

        if loop == "scan":
            return eo.scan(lambda c, t: (body(c), None), x, None, length=3)[0]
        if loop == "fori_loop":
            return eo.fori_loop(0, 3, lambda i, c: body(c), x)
        return eo.while_loop(lambda c: c < 1e3, body, x)

    for x in (eo.tensor(3.0), 3.0):
        wanted = 3.0
        for _ in range(2 if loop == "while_loop" else 3):
            wanted = (wanted + 3.0) * wanted
        while loop == "while_loop" and wanted < 1e3:
            wanted = (wanted + 3.0) * wanted
        assert f(x).item() == pytest.approx(wanted, rel=1e-6)
        assert eo.compile(f)(x).item() == pytest.approx(wanted, rel=1e-6)
        assert float(x) == 3.0


@pytest.mark.parametrize("make", [eo.optim.Adam, lambda ps: eo.optim.SGD(ps, lr=0.1, momentum=0.9)])
def test_compiled_steps_of_a_parameter_of_shape(make):
    found = []
    for compiled in (False, True):
        w = eo.tensor(2.0, dtype="float64", requires_grad=True)
        optimizer = make([w])

        def step(x, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            ((w * x - 1) ** 2).backward()
            optimizer.step()

        step = eo.compile(step) if compiled else step
        for i in range(4):
            step(eo.tensor(0.5 + i, dtype="float64"))
        found.append(w.item())
    assert found[0] == pytest.approx(found[1], rel=1e-14)
    assert found[0] != 2.0
