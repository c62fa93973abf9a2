"""What transformations refuse: each error names the transformation that was called and the user's line."""

import numpy as np
import pytest

import everyo as eo


def x():
    return eo.tensor([1.0, 2.0])


def both(f, *primals):
    value, pullback = eo.vjp(f, *primals)
    return pullback(eo.tree_map(eo.ones_like, value))


CALLS = {
    "grad": lambda f, *a: eo.grad(f)(*a),
    "value_and_grad": lambda f, *a: eo.value_and_grad(f)(*a),
    "vjp": both,
    "jvp": lambda f, *a: eo.jvp(f, a, a),
    "linearize": lambda f, *a: eo.linearize(f, *a)[1](*a),
    "jacrev": lambda f, *a: eo.jacrev(f)(*a),
    "jacfwd": lambda f, *a: eo.jacfwd(f)(*a),
    "jacobian": lambda f, *a: eo.jacobian(f)(*a),
    "hessian": lambda f, *a: eo.hessian(f)(*a),
    "hvp": lambda f, *a: eo.hvp(f, a, a),
    "vhp": lambda f, *a: eo.vhp(f, a, a),
    "sparse_jacobian": lambda f, *a: eo.sparse_jacobian(f)(*a),
    "sparse_hessian": lambda f, *a: eo.sparse_hessian(f)(*a),
}
SCALAR = ("grad", "value_and_grad", "hessian", "hvp", "vhp", "sparse_hessian")


def refused(name, kind, f, *args):
    """Return the error of a transformation, which must have what all of them have."""
    with pytest.raises(kind) as caught:
        CALLS[name](f, *args)
    error = caught.value
    assert error.operation == name
    assert error.remedy
    assert "test_transform_errors.py" in error.line
    assert str(error).splitlines()[-1].strip().startswith("at:")
    return str(error).partition("\n  at:")[0]  # the source line may hold any word


@pytest.mark.parametrize("name", CALLS)
def test_integer_arguments(name):
    text = refused(name, eo.DTypeError, lambda v: (v * v).sum(), eo.tensor([1, 2]))
    assert "int64" in text
    assert "x.astype(eo.float64)" in text


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", ["text", ["text"], object()], ids=["str", "list", "object"])
def test_arguments_that_are_no_tensors(name, value):
    text = refused(name, eo.DTypeError, lambda v: x().sum(), value)
    assert "an argument is no tensor" in text
    assert type(value[0] if isinstance(value, list) else value).__name__ in text


@pytest.mark.parametrize("name", SCALAR)
def test_values_that_are_no_scalars(name):
    text = refused(name, eo.ShapeError, lambda v: v * v, x())
    assert "shape (2,)" in text
    assert ".sum()" in text
    text = refused(name, eo.DTypeError, lambda v: (v * 1j).sum(), x())
    assert "complex" in text


@pytest.mark.parametrize("name", SCALAR[:5])
def test_several_values_or_none(name):
    text = refused(name, eo.ShapeError, lambda v: (v.sum(), v.sum()), x())
    assert "2 values" in text
    assert "has_aux=True" in text
    text = refused(name, eo.ShapeError, lambda v: None, x())
    assert "nothing" in text
    assert "return" in text


@pytest.mark.parametrize("name", CALLS)
def test_results_that_are_no_tensors(name):
    text = refused(name, eo.DTypeError, lambda v: "text", x())
    assert "str" in text
    assert "returned" in text


@pytest.mark.parametrize("name", ["jvp", "jacfwd", "hessian", "hvp", "sparse_jacobian", "sparse_hessian"])
@pytest.mark.parametrize("nothing", [{}, None], ids=["dict", "None"])
def test_nothing_to_differentiate(name, nothing):
    assert "nothing to differentiate" in refused(name, eo.ArgumentError, lambda v: x().sum(), nothing)


def test_no_arguments_and_none_mapped():
    for name in ("grad", "value_and_grad", "jacrev", "jacfwd", "jacobian", "hessian"):
        assert "the call has 0" in refused(name, eo.ArgumentError, lambda: x().sum())
    for name in ("jvp", "hvp"):
        refused(name, eo.ArgumentError, lambda: x().sum())


def test_an_empty_tree_has_an_empty_gradient():
    assert eo.grad(lambda v: x().sum())({}) == {}
    assert eo.vjp(lambda v: x(), {})[1](x()) == ({},)


@pytest.mark.parametrize("name", CALLS)
def test_an_error_of_the_function_itself_is_its_own(name):
    with pytest.raises(eo.ShapeError) as caught:
        CALLS[name](lambda v: v.reshape(7).sum(), x())
    assert caught.value.operation == "reshape"
    with pytest.raises(KeyError, match="mine"):
        CALLS[name](lambda v: {}["mine"], x())


def test_an_error_of_an_inner_transformation_keeps_its_name():
    for name in ("hvp", "hessian", "vhp", "linearize", "value_and_grad"):
        with pytest.raises(eo.ShapeError) as caught:
            CALLS[name](lambda v: eo.grad(lambda w: w * w)(v).sum(), x())
        assert caught.value.operation == "grad"


def test_numbers_as_results():
    value, pullback = eo.vjp(lambda v: 3.0, x())
    assert value.item() == 3.0
    assert pullback(eo.tensor(1.0))[0].tolist() == [0.0, 0.0]
    value, pushforward = eo.linearize(lambda v: 3.0, x())
    assert (value.item(), pushforward(x()).item()) == (3.0, 0.0)
    assert eo.grad(lambda v: 3.0)(x()).tolist() == [0.0, 0.0]
    assert eo.jvp(lambda v: 3.0, (x(),), (x(),))[1].item() == 0.0


def test_vmap_names_itself():
    for f in (lambda v: "text", lambda v: object()):
        with pytest.raises(eo.DTypeError) as caught:
            eo.vmap(f)(x())
        assert "the function returned" in caught.value.message
        assert caught.value.operation == "vmap"
        assert caught.value.remedy
    assert np.isscalar(eo.vmap(lambda v: 1.5)(x()).tolist()[0])
