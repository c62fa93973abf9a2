"""Errors for what is written out of habit from elsewhere: each says what to write here."""

import copy
import math
import pickle
import re

import numpy as np
import pytest

import everyo as eo
from everyo.guidance import tables
from everyo.ops import methods

LOSS = (eo.tensor([1.0, 2.0], requires_grad=True) ** 2).sum()
X = eo.tensor([1.0, 2.0])
NO_FUNCTIONS = {
    "grad": lambda f: eo.grad(f),
    "value_and_grad": lambda f: eo.value_and_grad(f),
    "vjp": lambda f: eo.vjp(f, X),
    "jvp": lambda f: eo.jvp(f, (X,), (X,)),
    "linearize": lambda f: eo.linearize(f, X),
    "jacobian": lambda f: eo.jacobian(f),
    "jacrev": lambda f: eo.jacrev(f),
    "jacfwd": lambda f: eo.jacfwd(f),
    "hessian": lambda f: eo.hessian(f),
    "hvp": lambda f: eo.hvp(f, X, X),
    "vhp": lambda f: eo.vhp(f, X, X),
    "sparse_jacobian": lambda f: eo.sparse_jacobian(f),
    "sparse_hessian": lambda f: eo.sparse_hessian(f),
    "vmap": lambda f: eo.vmap(f),
    "checkpoint": lambda f: eo.checkpoint(f),
    "checkpoint_sequential": lambda f: eo.checkpoint_sequential([eo.sin, f]),
    "custom_vjp": lambda f: eo.custom_vjp(f),
    "custom_jvp": lambda f: eo.custom_jvp(f),
    "defvjp": lambda f: eo.custom_vjp(eo.sin).defvjp(eo.sin, f),
    "defjvp": lambda f: eo.custom_jvp(eo.sin).defjvp(f),
    "scan": lambda f: eo.scan(f, X, X),
    "cond": lambda f: eo.cond(True, f, f, X),
    "while_loop": lambda f: eo.while_loop(f, f, X),
    "fori_loop": lambda f: eo.fori_loop(0, 3, f, X),
    "map": lambda f: eo.map(f, X),
    "associative_scan": lambda f: eo.associative_scan(f, X),
    "custom_root": lambda f: eo.implicit.custom_root(f),
    "custom_fixed_point": lambda f: eo.implicit.custom_fixed_point(f),
    "custom_linear_solve": lambda f: eo.implicit.custom_linear_solve(f, X, f),
    "solve_cg": lambda f: eo.implicit.solve_cg(f, X),
    "minimize_fun": lambda f: eo.scipy_compat.minimize(f, X),
    "tree_map": lambda f: eo.tree_map(f, X),
    "apply_along_axis": lambda f: eo.apply_along_axis(f, 0, X),
    "apply_over_axes": lambda f: eo.apply_over_axes(f, X, 0),
    "gradcheck": lambda f: eo.testing.gradcheck(f, X),
    "gradgradcheck": lambda f: eo.testing.gradgradcheck(f, X),
    "check_jvp": lambda f: eo.testing.check_jvp(f, X),
    "numerical_gradient": lambda f: eo.testing.numerical_gradient(f, X),
    "apply": lambda f: eo.nn.ReLU().apply(f),
    "step": lambda f: eo.optim.SGD([eo.ones(2, requires_grad=True)], lr=0.1).step(f),
    "residuals_fun": lambda f: eo.scipy_compat.least_squares(f, X),
}


@pytest.mark.parametrize("given", [LOSS, 3.0])
@pytest.mark.parametrize("operation", NO_FUNCTIONS)
def test_what_is_no_function_is_refused_at_once(operation, given):
    with pytest.raises(eo.ArgumentError, match="what should be a function cannot be called") as caught:
        NO_FUNCTIONS[operation](given)
    assert caught.value.operation == operation
    assert caught.value.found == ("float" if given == 3.0 else "float32 ()")


@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "jacobian", "jacrev", "jacfwd", "hessian"])
def test_the_second_argument_names_positions(transform):
    for second in (X, X.numpy(), eo.tensor(1)):
        with pytest.raises(
            eo.ArgumentError, match=r"eo\.autograd\.grad\(y, x\) differentiates a computed tensor"
        ):
            getattr(eo, transform)(lambda x: x.sum(), second)
    with pytest.raises(eo.ArgumentError, match="write argnames='b', and pass that argument by keyword"):
        getattr(eo, transform)(lambda a, b: (a * b).sum(), "b")
    with pytest.raises(eo.ArgumentError, match=rf"write eo\.{transform}\(f\)\(x\)"):
        getattr(eo, transform)(LOSS, X)
    assert eo.grad(lambda a, b: a * b, np.int64(1))(2.0, 3.0).item() == 2.0


USES = {
    "repr": repr,
    "print": str,
    "format": format,
    "tolist": lambda w: w.tolist(),
    "numpy": lambda w: w.detach().numpy(),
    "add": lambda w: w + 1,
    "matmul": lambda w: w @ w,
    "sin": np.sin,
    "sum": lambda w: w.sum(),
    "index": lambda w: w[0],
    "gradient": eo.grad(lambda w: (w * w).sum()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_tensor_as_data_is_an_error_that_says_how_to_update(use, recorded):
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    with eo.set_grad_enabled(recorded):
        w.data = w - 0.5
    with pytest.raises(eo.GraphStateError, match=r"with eo\.no_grad\(\): w -= lr \* w\.grad"):
        USES[use](w)


def test_the_update_that_the_error_names():
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    with eo.no_grad():
        w -= 0.25 * w.grad
    assert w.tolist() == [0.5, 1.0]
    assert w.requires_grad
    with eo.no_grad():
        w[...] = 7.0
    assert w.tolist() == [7.0, 7.0]


@pytest.mark.parametrize(
    ("gradient", "error"),
    [
        (3, eo.DTypeError),
        ([1.0, 1.0], eo.DTypeError),
        (np.ones(2), eo.DTypeError),
        (np.ones(2, np.float32), eo.DTypeError),
        (eo.ones(2, dtype=eo.float64), eo.DTypeError),
        (eo.ones(2, dtype=eo.int64), eo.DTypeError),
        (eo.ones(3), eo.ShapeError),
    ],
)
def test_a_gradient_that_was_set_is_a_tensor_like_its_own(gradient, error):
    """One rule for the optimizer's step and for the next backward pass."""
    w = eo.tensor([1.0, 2.0], requires_grad=True)
    w.grad = gradient
    with pytest.raises(error, match="set a tensor of that shape and dtype"):
        eo.optim.SGD([w], lr=0.5).step()
    with pytest.raises(error, match="set a tensor of that shape and dtype"):
        (w * w).sum().backward()
    assert w.tolist() == [1.0, 2.0]
    w.grad = eo.asarray(np.array([2.0, 4.0]), dtype=w.dtype)
    eo.optim.SGD([w], lr=0.5).step()
    assert w.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("make", [eo.tensor, eo.asarray, lambda rows: eo.add(eo.ones(2), rows)])
def test_rows_of_several_lengths(make):
    with pytest.raises(eo.DTypeError, match="give all rows one length, by padding"):
        make([[1.0, 2.0], [3.0]])
    with pytest.raises(eo.DTypeError, match=r"pass numbers: text is read with float\(s\)"):
        make("1.0")


def test_math_functions_while_a_function_is_compiled():
    with pytest.raises(eo.CompileError, match=r"np\.sin\(x\) or eo\.sin\(x\) for math\.sin\(x\)"):
        eo.compile(math.sin)(eo.tensor(1.0))
    assert eo.compile(np.sin)(eo.tensor(0.0)).item() == 0.0


@pytest.mark.parametrize("copies", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_of_a_computed_tensor_name_the_users_line(copies):
    y = eo.ones(2, requires_grad=True) * 2
    with pytest.raises(eo.GraphStateError) as caught:
        copies({"y": [y]}["y"][0])
    assert caught.value.operation == {"dumps": "pickle"}.get(copies.__name__, copies.__name__)
    assert 'copies({"y": [y]}' in caught.value.line
    assert "x.detach()" in caught.value.remedy


def test_a_shallow_copy_is_another_leaf_of_its_class():
    x = eo.nn.Parameter(eo.tensor([1.0, 2.0]))
    x.grad = eo.ones(2)
    other = copy.copy(x)
    assert (type(other), other.requires_grad, other.tolist()) == (eo.nn.Parameter, True, [1.0, 2.0])
    assert other.grad.tolist() == [1.0, 1.0]
    (other * other).sum().backward()
    assert (other.grad.tolist(), x.grad.tolist()) == ([3.0, 5.0], [1.0, 1.0])


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "relu", "arctan2", "remainder"])
def test_real_functions_of_complex_numbers_name_the_parts(name):
    z = eo.tensor([1.5 + 2j])
    operands = (z, z) if name in ("arctan2", "remainder") else (z,)
    with pytest.raises(
        eo.DTypeError, match=r"take a part first: eo\.real\(x\), eo\.imag\(x\) or eo\.abs\(x\)"
    ):
        getattr(eo, name)(*operands)
    assert eo.floor(eo.real(z)).tolist() == [1.0]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps"])
def test_devices_of_other_libraries(device):
    for move in (eo.nn.Linear(2, 2).to, eo.ones(2).to, lambda name: eo.zeros(2, device=name)):
        with pytest.raises(eo.DeviceError, match="EveryO computes on the CPU"):
            move(device)


def test_several_arguments_of_a_sparse_derivative():
    with pytest.raises(eo.ArgumentError, match=r"eo\.sparse_jacobian\(lambda x: f\(x, k\)\)\(x\)"):
        eo.sparse_jacobian(lambda x, k: x * k)(eo.ones(3), 2.0)
    assert eo.sparse_jacobian(lambda x: x * 2.0)(eo.ones(2)).toarray().tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_round_is_that_of_everyo():
    x = eo.tensor([1.256, -2.5, 3.5], dtype=eo.float64)
    assert round(x, 2).tolist() == [1.26, -2.5, 3.5]
    assert round(x).tolist() == [1.0, -2.0, 4.0]
    assert round(eo.tensor(1234.0), -2).item() == 1200.0


def test_a_function_class_is_applied_not_called():
    class Double(eo.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    for call in (lambda: Double(X), lambda: Double()(X)):
        with pytest.raises(eo.UnsupportedOperationError, match=r"write Double\.apply\(x\)"):
            call()
    assert Double.apply(X).tolist() == [2.0, 4.0]


def test_names_of_other_libraries_are_explained():
    x = eo.tensor([[1.0, 2.0]])
    with pytest.raises(AttributeError, match=r"no attribute 'unsqueeze'; in EveryO: x\.expand_dims\(axis\)"):
        x.unsqueeze(0)
    with pytest.raises(
        AttributeError, match=r"'Parameter' object has no attribute 'add_'; in EveryO: x \+= y"
    ):
        eo.nn.Parameter(x).add_(1)
    with pytest.raises(
        AttributeError, match=r"no attribute 'cat'; in EveryO: eo\.concatenate\(tensors, axis\)"
    ):
        eo.cat([x, x])
    for name in tables.OF_TENSORS:
        assert not hasattr(x, name)
        assert name not in dir(x)
    for name in tables.OF_MODULE:
        assert not hasattr(eo, name)
    assert set(methods.ELSEWHERE) == set(tables.OF_TENSORS)
    with pytest.raises(AttributeError, match=r"^'Tensor' object has no attribute 'nonsense'$"):
        x.nonsense
    with pytest.raises(AttributeError, match=r"^module 'everyo' has no attribute 'nonsense'$"):
        eo.nonsense


@pytest.mark.parametrize("known", [tables.OF_TENSORS, tables.OF_MODULE])
def test_what_the_hints_name_exists(known):
    for text in known.values():
        for module, name in re.findall(r"\b(eo|eo\.random)\.([a-z]\w*)\b(?!\.)", text):
            assert hasattr(eo.random if module == "eo.random" else eo, name), text
        for name in re.findall(r"\bx\.([a-zA-Z]\w*)", text.replace("x.at", "")):
            assert hasattr(type(X), name), text


def test_protocols_do_not_see_the_hints():
    class Named(eo.Tensor):
        def view(self):
            return "own"

    x = eo.tensor([1.0, 2.0])
    assert np.asarray(x).tolist() == [1.0, 2.0]
    assert pickle.loads(pickle.dumps(x)).tolist() == [1.0, 2.0]
    assert copy.deepcopy(x).tolist() == [1.0, 2.0]
    assert eo.tree_map(lambda leaf: leaf + 1, {"a": x})["a"].tolist() == [2.0, 3.0]
    named = Named()
    named.at = "here"
    assert (named.view(), named.at) == ("own", "here")
    assert {"at", "view"} <= set(dir(named))


@pytest.mark.parametrize(
    ("dtype", "floats"),
    [("int64", "float64"), ("int32", "float64"), ("uint32", "float64"), ("int16", "float32")]
    + [("uint8", "float32"), ("bool", "float32")],
)
def test_integers_are_converted_to_floats_that_hold_their_digits(dtype, floats):
    x = np.array([1, 0]).astype(dtype)
    calls = [
        lambda: eo.grad(lambda x: (x * x).sum())(x),
        lambda: eo.jvp(eo.sin, (x,), (x,)),
        lambda: eo.tensor(x, requires_grad=True),
        lambda: eo.nn.functional.dropout(eo.asarray(x), 0.5),
    ]
    for call in calls:
        with pytest.raises(eo.DTypeError) as caught:
            call()
        assert f"x.astype(eo.{floats})" in caught.value.remedy
    assert eo.grad(lambda x: (x * x).sum())(x.astype(getattr(eo, floats))).tolist() == [2.0, 0.0]


def test_an_integer_is_written_as_a_float():
    with pytest.raises(eo.DTypeError, match=r"write a float: 3\.0, or leave it out with argnums"):
        eo.grad(lambda x: x * x)(3)
    assert eo.grad(lambda x: x * x)(3.0).item() == 6.0
    with pytest.raises(eo.DTypeError, match=r"the base first: x\.astype\(eo\.float64\)"):
        eo.tensor([2, 3]) ** -1
