"""`copy.copy` and `copy.deepcopy` inside transformations: differentiable clones, as ``x.clone()``."""

import copy
import pickle

import numpy as np
import pytest

import everyo as eo

POINT = np.array([1.0, 2.0])
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy of a tree": lambda x: copy.deepcopy({"pos": [x]})["pos"][0],
    "copy of a tree": lambda x: copy.copy({"pos": copy.copy(x)})["pos"],
}
every_copy = pytest.mark.parametrize("copies", COPIES.values(), ids=COPIES)


def tensor(*values, **options):
    return eo.tensor(list(values), dtype=eo.float64, **options)


def point(**options):
    return tensor(*POINT, **options)


def cube(copies):
    """Return ``sum(3 x**3)``, whose factors are copies of an argument, of a result and of a copy."""
    return lambda x: (copies(x) * copies(x * 3) * copies(copies(x))).sum()


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(eo.asarray(found).detach()), np.asarray(expected))


GRADIENT, HESSIAN = 9 * POINT**2, np.diag(18 * POINT)
DERIVATIVES = {
    "grad": (lambda f, x: eo.grad(f)(x), GRADIENT),
    "value_and_grad": (lambda f, x: eo.value_and_grad(f)(x)[0], 27.0),
    "vjp": (lambda f, x: eo.vjp(f, x)[1](eo.tensor(1.0, dtype=x.dtype))[0], GRADIENT),
    "jvp": (lambda f, x: eo.jvp(f, (x,), (eo.ones_like(x),))[1], GRADIENT.sum()),
    "value of jvp": (lambda f, x: eo.jvp(f, (x,), (eo.ones_like(x),))[0], 27.0),
    "linearize": (lambda f, x: eo.linearize(f, x)[1](eo.ones_like(x)), GRADIENT.sum()),
    "jacrev": (lambda f, x: eo.jacrev(f)(x), GRADIENT),
    "jacfwd": (lambda f, x: eo.jacfwd(f)(x), GRADIENT),
    "hessian": (lambda f, x: eo.hessian(f)(x), HESSIAN),
    "grad of grad": (lambda f, x: eo.grad(lambda y: eo.grad(f)(y).sum())(x), HESSIAN.sum(0)),
    "grad of jvp": (lambda f, x: eo.grad(lambda y: eo.jvp(f, (y,), (x,))[1])(x), HESSIAN @ POINT),
    "jvp of grad": (lambda f, x: eo.jvp(eo.grad(f), (x,), (x,))[1], HESSIAN @ POINT),
    "vmap": (lambda f, x: eo.vmap(f)(eo.stack([x, 2 * x])), [27.0, 216.0]),
    "vmap of grad": (lambda f, x: eo.vmap(eo.grad(f))(eo.stack([x, 2 * x])), [GRADIENT, 4 * GRADIENT]),
    "grad of vmap": (lambda f, x: eo.grad(lambda y: eo.vmap(f)(y[:, None]).sum())(x), GRADIENT),
    "compile": (lambda f, x: eo.compile(f)(x), 27.0),
    "compile of grad": (lambda f, x: eo.compile(eo.grad(f))(x), GRADIENT),
    "grad of compile": (lambda f, x: eo.grad(eo.compile(f))(x), GRADIENT),
    "jvp of compile": (lambda f, x: eo.jvp(eo.compile(f), (x,), (x,))[1], GRADIENT @ POINT),
    "compile of vmap of grad": (lambda f, x: eo.compile(eo.vmap(eo.grad(f)))(x[None]), GRADIENT[None]),
    "grad of checkpoint": (lambda f, x: eo.grad(eo.checkpoint(f))(x), GRADIENT),
}


@every_copy
@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_copy_is_a_differentiable_clone(name, leaf, copies):
    transformed, expected = DERIVATIVES[name]
    same(transformed(cube(copies), point(requires_grad=leaf)), expected)


@every_copy
def test_the_gradient_of_a_leaf_goes_through_copies_inside(copies):
    for transformed in (
        lambda x: eo.grad(cube(copies))(x).sum(),
        lambda x: eo.jvp(cube(copies), (x,), (eo.ones_like(x),))[1],
    ):
        x = point(requires_grad=True)
        transformed(x).backward()
        same(x.grad, 18 * POINT)


@every_copy
def test_values_of_the_transformations_around(copies):
    """A value of an outer `grad` is copied inside another one, which does not follow it."""

    def outer(inner):
        return lambda x: inner(lambda y: (copies(x) * copies(x * 2) * y).sum(), x).sum()

    for inner in (
        lambda f, x: eo.grad(f)(point()),
        lambda f, x: eo.jvp(f, (point(),), (eo.ones_like(x),))[1],
        lambda f, x: eo.vmap(f)(eo.eye(2, dtype=x.dtype)),
    ):
        same(eo.grad(outer(inner))(point()), 4 * POINT)


@every_copy
def test_a_captured_result_stays_in_its_graph(copies):
    for transformed in (
        lambda f: eo.grad(f)(point()).sum(),
        lambda f: eo.jvp(f, (point(),), (eo.ones(2, dtype=eo.float64),))[1],
        lambda f: eo.vmap(f)(eo.eye(2, dtype=eo.float64)).sum(),
        lambda f: eo.compile(f)(eo.ones(2, dtype=eo.float64)),
    ):
        w = point(requires_grad=True)
        y = w * w
        transformed(lambda x, y=y: (copies(y) * x).sum()).backward()
        same(w.grad, 2 * POINT)


@every_copy
def test_a_copy_is_apart_from_what_was_copied(copies):
    def f(x):
        y = copies(x)
        y += 1
        y[0] = 5.0
        z = copies(x.sum())
        z *= 2
        return (y * x).sum() + z - x.sum()

    for transformed in (eo.grad(f), eo.compile(eo.grad(f)), eo.jacfwd(f)):
        x = point()
        same(transformed(x), [6.0, 6.0])
        same(x, POINT)


@every_copy
def test_copies_in_a_no_grad_block_are_constant(copies):
    def f(x):
        with eo.no_grad():
            y = copies(x)
        return (y * x).sum()

    same(eo.grad(f)(point()), POINT)
    same(eo.jacfwd(f)(point()), POINT)


def test_a_deep_copy_keeps_who_is_who_inside():
    def f(x):
        y = x * 2
        a, b = copy.deepcopy([y, {"again": y}])
        assert a is b["again"]
        assert a is not y
        return (a * b["again"]).sum()

    same(eo.grad(f)(point()), 8 * POINT)
    same(eo.jacfwd(f)(point()), 8 * POINT)


def test_a_deep_copy_of_a_module_with_other_parameters():
    model = eo.nn.Linear(2, 1, bias=False, dtype=eo.float64)

    def f(parameters):
        model = copy.deepcopy(parameters)
        return (model["weight"] ** 2).sum()

    weight = eo.asarray(model.weight.detach())
    same(eo.grad(f)({"weight": model.weight})["weight"], 2 * np.asarray(weight))


@every_copy
def test_a_captured_leaf_is_copied_as_a_leaf(copies):
    """As outside: the copy is another parameter."""
    w, kept = point(requires_grad=True), []

    def f(x):
        kept.append(copies(w))
        return (kept[0] * x).sum()

    same(eo.grad(f)(point()), POINT)
    assert kept[0].is_leaf
    assert kept[0].requires_grad
    assert w.grad is None


@every_copy
def test_outside_of_transformations_a_result_is_no_leaf(copies):
    x = point(requires_grad=True)
    eo.grad(cube(copies))(x)
    for result in (x * 2, eo.grad(cube(copies))(x)):
        with pytest.raises(eo.GraphStateError, match=r"the result of \w+(.|\n)*x\.clone\(\)"):
            copies(result)


@every_copy
def test_a_value_that_outlived_its_transformation_is_not_copied(copies):
    kept = []
    eo.jvp(lambda x: (kept.append(x), x)[1], (point(),), (point(),))
    with pytest.raises(eo.GraphStateError, match="outlived the jvp"):
        copies(kept[0])


PICKLED = {
    "grad": (lambda f, x: eo.grad(f)(x), "an argument of the transformation"),
    "grad of a leaf": (lambda f, x: eo.grad(f)(x.requires_grad_()), "an argument of the transformation"),
    "jvp": (lambda f, x: eo.jvp(f, (x,), (x,)), "a value inside jvp"),
    "vmap": (lambda f, x: eo.vmap(f)(x), "a value inside vmap"),
}


@pytest.mark.parametrize("name", PICKLED)
def test_pickling_is_refused_inside(name):
    transformed, found = PICKLED[name]
    with pytest.raises(eo.GraphStateError) as caught:
        transformed(lambda x: (pickle.dumps({"pos": x}), x.sum())[1], point())
    assert caught.value.found == found
    assert "clone" not in caught.value.remedy
    assert "detach()" in caught.value.remedy


def test_pickling_is_refused_in_compiled_functions():
    for f in (lambda x: x, lambda x: x * 2):
        with pytest.raises(eo.CompileError, match="pickle it outside"):
            eo.compile(lambda x, f=f: (pickle.dumps(f(x)), x)[1])(point())


def test_an_argument_of_a_transformation_cannot_stop_requiring_grad():
    with pytest.raises(eo.GraphStateError, match=r"found: +an argument of the transformation"):
        eo.grad(lambda x: x.requires_grad_(False).sum())(point())
