"""Functions that return None or empty trees, and loops of no or impossible length."""

import pytest

import everyo as eo

X = eo.ones(3)


@pytest.mark.parametrize("empty", [None, {}, (), [], {"a": None}], ids=repr)
def test_derivatives_of_empty_trees_are_empty_trees(empty):
    def f(x):
        return empty

    assert eo.jacrev(f)(X) == empty
    assert eo.jacfwd(f)(X) == empty
    assert eo.jacobian(f)(X) == empty
    assert eo.jacrev(lambda x: (empty, "aux"), has_aux=True)(X) == (empty, "aux")
    assert eo.jvp(f, (X,), (X,)) == (empty, empty)
    assert eo.linearize(f, X)[0] == empty
    assert eo.linearize(f, X)[1](X) == empty
    value, pullback = eo.vjp(f, X)
    assert value == empty
    assert pullback(empty)[0].tolist() == [0.0, 0.0, 0.0]
    assert eo.vmap(f)(X) == empty
    assert eo.sparse_jacobian(f, X).shape == (0, 3)
    with pytest.raises(eo.ShapeError):
        eo.sparse_hessian(f, X)
    with pytest.raises(eo.ShapeError):
        eo.grad(f)(X)


def test_a_jacobian_beside_nothing():
    found = eo.jacrev(lambda x: {"y": x * 2, "nothing": None, "empty": []})(X)
    assert found["y"].tolist() == [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]
    assert (found["nothing"], found["empty"]) == (None, [])


BODIES = {
    "while_loop": lambda body: eo.while_loop(lambda s: s.sum() < 9, body, X),
    "fori_loop": lambda body: eo.fori_loop(0, 2, lambda i, s: body(s), X),
    "scan": lambda body: eo.scan(lambda s, _: (body(s), s), X, None, 2),
    "associative_scan": lambda body: eo.associative_scan(lambda a, b: body(a), X),
    "cond": lambda body: eo.vmap(lambda x: eo.cond(x > 1, body, lambda x: x, x))(eo.tensor([0.0, 2.0])),
    "solve_cg": lambda body: eo.implicit.solve_cg(body, X),
    "custom_root": lambda body: eo.implicit.custom_root(lambda x, a: body(x))(lambda init, a: a * 1)(None, X),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("returned", [None, (), {}], ids=repr)
def test_a_body_that_returns_nothing_is_told_so(name, returned):
    with pytest.raises(eo.ShapeError, match="structure") as error:
        BODIES[name](lambda s: returned)
    sides = {error.value.expected, error.value.found}
    assert len(sides) == 2
    assert "one tensor" in sides


def test_a_start_that_is_nothing():
    with pytest.raises(eo.ShapeError, match="structure") as error:
        eo.fori_loop(0, 2, lambda i, s: X, None)
    assert error.value.found == "one tensor"
    assert "None" in error.value.expected
    assert eo.fori_loop(0, 2, lambda i, s: s, None) is None


def test_a_solver_that_returns_nothing():
    with pytest.raises(eo.ShapeError, match="returned nothing"):
        eo.implicit.custom_root(lambda x, a: x - a)(lambda init, a: None)(None, X)


@pytest.mark.parametrize("length", [-1, -2])
@pytest.mark.parametrize("every", [None, 1])
def test_a_scan_of_negative_length_is_refused(length, every):
    with pytest.raises(eo.ArgumentError, match="negative") as error:
        eo.scan(lambda c, x: (c, c), 1.0, None, length, checkpoint_every=every)
    assert error.value.found == str(length)
    assert eo.scan(lambda c, x: (c, c), 1.0, None, 0)[1].shape == (0,)
    assert eo.fori_loop(3, length, lambda i, s: s + 1, 1.0).item() == 1.0
