"""NumPy's functions on tensors: the same values, still differentiable, or an error."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import everyo as eo
from everyo.errors import GraphStateError, UnsupportedOperationError
from everyo.ops.numpy_ufuncs import counterpart

M = np.array([[2.0, 0.5, -0.25], [0.75, 3.0, 1.5], [0.25, -1.25, 4.0]])
V = np.array([0.5, 2.0, 0.25])
S = M @ M.T  # positive definite
K = np.array([[6, 3, 1], [2, 5, 4], [7, 2, 3]])
A, B = np.array(0.5), np.array(2.0)
DISPATCHED = type(np.sum)


def named(module):
    """The functions of a module of NumPy, without aliases of one ufunc, that have a counterpart."""
    found = {}
    for name in dir(module):
        function = getattr(module, name)
        if name.startswith("_") or not isinstance(function, (np.ufunc, DISPATCHED)):
            continue
        if counterpart(function) is not None:
            found[name] = function
    return found


FUNCTIONS = {
    **named(np),
    **{f"linalg.{name}": f for name, f in named(np.linalg).items()},
    **{f"fft.{name}": f for name, f in named(np.fft).items()},
}
WHOLE = (
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "gcd", "invert", "ix_", "lcm", "left_shift", "ravel_multi_index",
    "right_shift", "unravel_index",
)  # fmt: skip
UNIT = ("acos", "arccos", "arcsin", "arctanh", "asin", "atanh")
POSITIVE = (
    "acosh",
    "arccosh",
    "log",
    "log10",
    "log1p",
    "log2",
    "sqrt",
    "float_power",
    "pow",
    "power",
    "ldexp",
)
# Arguments where one or two matrices would not do.
ARGUMENTS = {
    "ravel_multi_index": ((K % 3, K % 2), (3, 2)), "linalg.tensorinv": ((np.eye(6) + 0.5).reshape(2, 3, 6),),
    "allclose": (M, M), "array_equal": (M, M), "array_equiv": (M, M), "isclose": (M, M),
    "append": (V, V), "apply_along_axis": (lambda row: (row * row).sum(), 1, M), "array_split": (V, 2),
    "astype": (M, np.float64), "average": (M, 0, V), "bincount": (K[0], V), "block": ([[M, M], [M, M]],),
    "broadcast_to": (V, (2, 3)), "can_cast": (np.int8, np.int16), "choose": (K[1] % 2, [V, V + 1]),
    "clip": (M, 0.0, 2.0), "column_stack": ([V, M],), "compress": ([True, False, True], M, 0),
    "concat": ([M, M],), "concatenate": ([M, M], 1), "convolve": (V, V), "correlate": (V, V),
    "cross": (V, M), "delete": (M, 1, 0), "digitize": (V, np.array([0.0, 1.0, 2.0])),
    "dsplit": (M[None], 3), "dstack": ([M, M],), "ediff1d": (V,), "einsum": ("ij,jk->ik", M, M),
    "expand_dims": (M, 1), "extract": (M > 1, M), "full_like": (M, 2.5), "geomspace": (A, B, 5),
    "gradient": (V,), "histogram": (V, 3), "hsplit": (M, 3), "hstack": ([M, M],), "inner": (M, M),
    "insert": (M, 1, V, 0), "interp": (V, np.array([0.0, 1.0, 3.0]), V), "ldexp": (V, K[0]),
    "linspace": (A, B, 5), "logspace": (A, B, 5), "meshgrid": (V, V), "moveaxis": (M, 0, 1),
    "pad": (M, ((1, 0), (0, 2))), "percentile": (M, 40.0), "permute_dims": (M, (1, 0)),
    "piecewise": (V, [V < 1, V >= 1], [lambda x: x * 2, lambda x: x**2]), "polyadd": (V, V),
    "polyval": (V, M), "quantile": (M, 0.4), "nanpercentile": (M, 40.0), "nanquantile": (M, 0.4),
    "repeat": (M, 2), "reshape": (M, (9,)), "resize": (M, (2, 5)), "result_type": (M, np.float32),
    "roll": (M, 1, 0), "rollaxis": (M, 1), "searchsorted": (np.sort(V), V),
    "select": ([M > 1, M > 0], [M, M * 2], 0.5), "split": (V, 3), "stack": ([M, M], 1),
    "swapaxes": (M, 0, 1), "take": (M, [2, 0], 1), "take_along_axis": (M, K % 3, 1), "tensordot": (M, M, 1),
    "tile": (M, (2, 1)), "trapezoid": (V,), "unravel_index": (K, (3, 3)), "vander": (V, 4), "vdot": (V, V),
    "vecdot": (M, M), "vecmat": (V, M), "matvec": (M, V), "vsplit": (M, 3), "vstack": ([M, M],),
    "where": (M > 1, M, M * 2), "isin": (M, V), "polyfit": (V, V, 1), "partition": (V, 1),
    "argpartition": (V, 1), "intersect1d": (V, V), "setdiff1d": (V, V[:1]), "setxor1d": (V, V[:1]),
    "union1d": (V, V + 1), "lexsort": ((V, V),), "broadcast_arrays": (V, M), "diag": (V,), "unstack": (M,),
    "ix_": (K[0], K[1]), "trim_zeros": (np.array([0.0, 1.0, 2.0, 0.0]),), "diff": (M,), "corrcoef": (M,),
    "cov": (M,), "linalg.cholesky": (S,), "linalg.cross": (V, V), "linalg.eigh": (S,),
    "linalg.eigvalsh": (S,), "linalg.lstsq": (M, V), "linalg.matrix_power": (M, 3),
    "linalg.multi_dot": ([M, M, V],), "linalg.outer": (V, V), "linalg.solve": (M, V),
    "linalg.tensordot": (M, M), "linalg.vecdot": (M, M), "linalg.tensorsolve": (M, V), "poly": (V,),
    "roots": (V,), "unwrap": (V,), "copy": (M,), "histogram2d": (V, V, 2), "histogramdd": (M, 2),
    "rot90": (M,), "kron": (M, V), "apply_over_axes": (np.sum, M, [0, 1]), "histogram_bin_edges": (V, 3),
    "cumulative_prod": (V,), "cumulative_sum": (V,), "dot": (M, V), "outer": (V, V),
    "linalg.matmul": (M, M), "i0": (V,), "fix": (M,), "atleast_1d": (V,), "nan_to_num": (M,),
    "polyder": (V,), "polyint": (V,), "polymul": (V, V), "polysub": (V, V), "polydiv": (V, V[:2]),
    "diagflat": (V,), "tri": (3,), "sort_complex": (V,),
}  # fmt: skip


def arguments(name):
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    base = K if name in WHOLE else np.abs(M) / 5 if name in UNIT else np.abs(M) + 1 if name in POSITIVE else M
    function = FUNCTIONS[name]
    if isinstance(function, np.ufunc):
        return (base, base.T)[: function.nin]
    return (base,)


def replaced(value, kinds):
    """Arguments with arrays of some kinds as tensors, which require grad if they may."""
    if isinstance(value, np.ndarray) and value.dtype.kind in kinds:
        x = eo.asarray(value)
        return x.requires_grad_() if value.dtype.kind == "f" else x
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, kinds) for item in value)
    return value


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


PLAIN = {
    "allclose", "array_equal", "array_equiv", "can_cast", "iscomplexobj", "isrealobj", "result_type",
}  # fmt: skip
CHANGING = {
    "copyto",
    "empty_like",
    "put_along_axis",
    "put",
    "place",
    "putmask",
    "fill_diagonal",
}  # what they are given, or of arbitrary elements
UP_TO_A_FACTOR = {"linalg.eig"}  # of absolute value 1 for each vector
COMPLEX = {"roots"}  # whatever the values, so that the dtype does not depend on them
CONSTANT = {"full_like", "ones_like", "zeros_like"}


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - CHANGING))
def test_a_function_of_numpy_gives_tensors_of_the_same_value(name):
    given = arguments(name)
    expected = leaves(FUNCTIONS[name](*given))
    found = leaves(FUNCTIONS[name](*replaced(given, "iu" if name in WHOLE else "f")))
    assert len(found) == len(expected)
    if name in PLAIN:
        assert found == expected
        return
    for ours, theirs in zip(found, expected):
        assert isinstance(ours, eo.Tensor), name
        values = ours.detach().numpy()
        assert values.shape == np.shape(theirs)
        if name not in COMPLEX and values.dtype != np.int64:  # NumPy has int32 in a few places
            assert values.dtype == np.asarray(theirs).dtype
        if name in UP_TO_A_FACTOR:
            values, theirs = np.abs(values), np.abs(theirs)
        np.testing.assert_allclose(values, theirs, rtol=1e-12, atol=1e-13)
    if any(ours.dtype.kind in "fc" for ours in found) and name not in CONSTANT:
        assert any(ours.requires_grad for ours in found)


def tracked(a):
    return eo.asarray(np.asarray(a, np.float64)).requires_grad_()


def gradient(function, a):
    """The gradient of the sum of what a function makes of one tensor."""
    x = tracked(a)
    function(x).sum().backward()
    return x.grad.numpy()


def test_programs_of_numpy_differentiate():
    w = np.arange(3.0)
    for program, derivative in (
        (lambda x: np.sin(x) * w, np.cos(V) * w),
        (lambda x: w * np.exp(x), w * np.exp(V)),
        (lambda x: np.concatenate([x, w, x]), np.full(3, 2.0)),
        (lambda x: np.where(x > 0.4, x**2, w), 2 * V * (V > 0.4)),
        (lambda x: np.einsum("i,ij->j", x, M), M.sum(1)),
        (lambda x: np.add.reduce(x * x), 2 * V),
        (lambda x: np.multiply.outer(x, w), np.full(3, w.sum())),
        (lambda x: np.add.accumulate(x), [3.0, 2.0, 1.0]),
        (lambda x: np.dot(w, x), w),
        (lambda x: w @ x, w),
        (lambda x: np.mean(x), np.full(3, 1 / 3)),
        (lambda x: np.hypot(x, 1.0), V / np.hypot(V, 1.0)),
        (lambda x: scipy.special.erf(x), 2 / np.sqrt(np.pi) * np.exp(-V * V)),
    ):
        np.testing.assert_allclose(gradient(program, V), derivative, rtol=1e-12, atol=1e-15)


def test_solve_differentiates_in_both_operands():
    matrix, x = eo.asarray(M), tracked(V)
    np.linalg.solve(matrix, x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.linalg.solve(M.T, np.ones(3)), rtol=1e-12)


def test_ufuncs_of_scipy_are_those_of_the_same_name():
    found = {name: getattr(scipy.special, name) for name in dir(scipy.special)}
    ufuncs = {name: f for name, f in found.items() if isinstance(f, np.ufunc) and counterpart(f)}
    assert {"betainc", "erf", "expit", "gammaln", "xlogy"} <= set(ufuncs)
    x, n = np.array([0.2, 0.5, 0.7]), np.array([1.0, 2.0, 3.0])
    for name, ufunc in ufuncs.items():
        given = ((x,), (n, x), (n, n, x))[ufunc.nin - 1]
        rules = (None,) * ufunc.nin
        if primitive := getattr(counterpart(ufunc), "primitive", None):
            rules = primitive.vjp
        pairs = zip(given, rules, strict=True)
        ours = ufunc(*(eo.asarray(a) if rule is None else tracked(a) for a, rule in pairs))
        np.testing.assert_allclose(ours.detach().numpy(), ufunc(*given), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("scalar", [np.float64(2), np.float32(2), np.int64(2), np.array(2.0), np.array(2)])
def test_scalars_and_arrays_without_axes_mix_on_either_side(scalar):
    x = tracked(V)
    for result, expected in (
        (scalar * x, scalar * V), (x * scalar, V * scalar), (scalar - x, scalar - V),
        (x / scalar, V / scalar), (scalar**x, scalar**V), (x**scalar, V**scalar),
        (np.divide(scalar, x), scalar / V), (scalar // x, scalar // V),
    ):  # fmt: skip
        assert isinstance(result, eo.Tensor)
        assert result.requires_grad
        assert result.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    for result, expected in (
        (scalar < x, scalar < V),
        (x > scalar, scalar < V),
        (scalar == x, scalar == V),
    ):
        assert result.tolist() == expected.tolist()


def test_numpy_scalars_promote_and_numbers_do_not():
    x = eo.ones(2)
    assert (np.float64(2) * x).dtype == (x * np.float64(2)).dtype == (np.ones(1) * x).dtype == eo.float64
    assert (2.0 * x).dtype == (np.float32(2) * x).dtype == eo.float32


def test_functions_of_numpy_inside_transformations():
    def loss(x):
        return np.sum(np.sin(x) * V)

    x = eo.asarray(V)
    value, tangent = eo.jvp(loss, (x,), (eo.ones(3, dtype=eo.float64),))
    assert value.item() == pytest.approx(np.sum(np.sin(V) * V), rel=1e-14)
    assert tangent.item() == pytest.approx(np.sum(np.cos(V) * V), rel=1e-14)
    np.testing.assert_allclose(eo.grad(loss)(x).numpy(), np.cos(V) * V, rtol=1e-14)
    np.testing.assert_allclose(eo.hessian(loss)(x).numpy(), np.diag(-np.sin(V) * V), rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(eo.vmap(loss)(eo.asarray(M)).numpy(), np.sin(M) @ V, rtol=1e-14)
    np.testing.assert_allclose(eo.compile(loss)(x).item(), np.sum(np.sin(V) * V), rtol=1e-14)


# ---- ufuncs: their methods and options


def test_methods_of_ufuncs():
    x = tracked(M)
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp):
        found = ufunc.reduce(x, axis=1, keepdims=True)
        assert found.requires_grad
        np.testing.assert_allclose(found.detach().numpy(), ufunc.reduce(M, axis=1, keepdims=True), rtol=1e-12)
    for ufunc in (np.logical_and, np.logical_or):
        assert ufunc.reduce(x > 0).tolist() == ufunc.reduce(M > 0).tolist()
    assert np.add.reduce(x, axis=None, dtype=np.float32).dtype == eo.float32
    for ufunc in (np.add, np.multiply):
        found = ufunc.accumulate(x, axis=1).detach().numpy()
        np.testing.assert_allclose(found, ufunc.accumulate(M, axis=1), rtol=1e-12)
    np.testing.assert_allclose(np.subtract.outer(x, V).detach().numpy(), np.subtract.outer(M, V))
    for call in (
        lambda: np.add.at(x, [0], 1.0),
        lambda: np.add.reduceat(x, [0, 1]),
        lambda: np.subtract.reduce(x),
        lambda: np.subtract.accumulate(x),
    ):
        with pytest.raises(UnsupportedOperationError, match=r"np\.(add|subtract)\."):
            call()


def test_reductions_of_what_a_mask_leaves():
    x, mask = tracked(M), M > 1
    for function in (np.sum, np.prod):
        found = function(x, axis=0, where=mask, initial=2.0)
        np.testing.assert_allclose(found.detach().numpy(), function(M, axis=0, where=mask, initial=2.0))
    found = np.max(x, axis=1, where=mask, initial=-1.0).detach().numpy()
    np.testing.assert_allclose(found, np.max(M, axis=1, where=mask, initial=-1.0))
    assert np.any(x, where=~mask).item() is True
    np.testing.assert_allclose(np.add.reduce(x, where=mask).detach().numpy(), np.add.reduce(M, where=mask))
    with pytest.raises(eo.ArgumentError, match="initial"):
        np.maximum.reduce(x, where=mask)


def test_out_takes_the_value_and_the_graph():
    x, y = tracked(V), eo.zeros(3, dtype=eo.float64)
    assert np.sin(x, out=y) is y
    np.testing.assert_allclose(gradient(lambda x: np.sin(x, out=eo.zeros(3, dtype=eo.float64)), V), np.cos(V))
    kept = np.exp(x, where=V > 0.4, out=eo.zeros(3, dtype=eo.float64))
    np.testing.assert_allclose(kept.detach().numpy(), np.where(V > 0.4, np.exp(V), 0.0))
    total = eo.zeros((), dtype=eo.float64)
    assert np.sum(x, out=total) is total
    assert total.item() == V.sum()
    a = V.copy()
    with pytest.raises(UnsupportedOperationError, match="out="):
        np.sin(x, out=a)
    with pytest.raises(UnsupportedOperationError, match="write a = a"):
        a += x
    with pytest.raises(UnsupportedOperationError, match="where="):
        np.sin(x, where=V > 0)
    np.testing.assert_array_equal(a, V)


def test_options_of_ufuncs():
    x = tracked(V)
    assert np.add(x, 1, dtype=np.float32).dtype == eo.float32
    assert np.add(x, 1, casting="same_kind", order="K").dtype == eo.float64
    with pytest.raises(UnsupportedOperationError, match="casting"):
        np.add(x, 1, casting="unsafe")
    with pytest.raises(UnsupportedOperationError, match="dtype"):
        np.less(x, 1, dtype=np.float64)


# ---- functions: other arguments, and what is refused


def test_arguments_that_are_called_otherwise_here():
    x = tracked(M)
    for function, options in (
        (np.round, {"decimals": 1}), (np.clip, {"a_min": 0.5, "a_max": None}), (np.clip, {"min": 0.5}),
        (np.reshape, {"shape": (-1,), "order": "F"}), (np.ravel, {"order": "F"}), (np.std, {"ddof": 1}),
        (np.var, {"correction": 1, "axis": 0}), (np.angle, {"deg": True}), (np.diff, {"n": 2, "axis": 0}),
        (np.ones_like, {"shape": (2,)}), (np.full_like, {"fill_value": 3, "dtype": np.float32, "shape": 2}),
    ):  # fmt: skip
        found, expected = function(x, **options), function(M, **options)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12)
    found = np.concatenate([x, M], axis=1, dtype=np.float32)
    assert (found.dtype, found.shape, found.requires_grad) == (eo.float32, (3, 6), True)
    assert [part.tolist() for part in np.where(x > 1)] == [part.tolist() for part in np.where(M > 1)]
    first, second = np.atleast_1d(x[0, 0], x)
    assert (first.shape, second.shape) == ((1,), (3, 3))
    assert np.einsum("ij->", x, optimize="optimal").item() == pytest.approx(M.sum())


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.sort(a, axis=None),
        lambda a: np.partition(a, 4, axis=None)[4],
        lambda a: np.concatenate([a, a], axis=None),
        lambda a: np.take_along_axis(a, np.array([8, 0]), axis=None),
        lambda a: np.repeat(a, 2, axis=None),
        lambda a: np.cumsum(a, axis=None),
        lambda a: np.flip(a, axis=None),
        lambda a: np.take(a, [7, 1], axis=None),
        lambda a: np.delete(a, 4, axis=None),
        lambda a: np.median(a, axis=None),
        lambda a: np.clip(a, None, 1.0),
        lambda a: np.linalg.norm(a, None, None),
        lambda a: np.sum(a, None, None, None, True),
    ],
)
def test_an_argument_of_none_means_what_it_means_in_numpy(function):
    found, expected = function(tracked(M)), function(M)
    assert found.requires_grad
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12)


def test_what_has_no_derivative_is_numpys_own():
    x = tracked(M)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((3, 3), 2, 9, 3)
    assert (np.iscomplexobj(x), np.isrealobj(x)) == (False, True)
    assert np.allclose(x, M) is True
    assert np.array_equal(x, M) is True
    assert np.array_repr(x) == np.array_repr(M)
    assert np.isclose(x, M).tolist() == [[True] * 3] * 3
    assert np.argwhere(x > 1).tolist() == np.argwhere(M > 1).tolist()
    assert np.shares_memory(x, M)
    np.testing.assert_allclose(eo.vmap(lambda row: row * np.shape(row)[0])(eo.ones((2, 3))).numpy(), 3.0)


def test_files_take_no_tensor_with_a_graph(tmp_path):
    np.save(tmp_path / "x.npy", eo.asarray(M))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), M)
    with pytest.raises(GraphStateError, match="detach"):
        np.save(tmp_path / "x.npy", tracked(M))


WRITES = [
    lambda a, v: np.put_along_axis(a, np.array([[0], [1], [2]]), 9.0, axis=1),
    lambda a, v: np.put_along_axis(a, np.array([0, 4]), v[:2], axis=None),
    lambda a, v: np.copyto(a, v, where=[True, False, True]),
    lambda a, v: np.copyto(a, v),
    lambda a, v: np.put(a, [0, 5, -1, 2], v),
    lambda a, v: np.put(a, [10, -10], v, mode="wrap"),
    lambda a, v: np.put(a, [100, -10], v, mode="clip"),
    lambda a, v: np.place(a, M > 0, v),
    lambda a, v: np.putmask(a, M > 0, v),
    lambda a, v: np.fill_diagonal(a, v),
    lambda a, v: np.fill_diagonal(a, 7.0, wrap=True),
]


@pytest.mark.parametrize("case", range(len(WRITES)))
def test_functions_that_write_into_a_tensor(case):
    expected, x, v = M.copy(), eo.asarray(M.copy()), tracked(V)
    held = x.numpy()
    assert WRITES[case](expected, V) is None
    assert WRITES[case](x, v) is None
    np.testing.assert_array_equal(x.detach().numpy(), expected)
    np.testing.assert_array_equal(held, M)  # tensors are values: nothing else changes
    ones, none = M.copy(), M.copy()
    WRITES[case](ones, V + 1.0)
    WRITES[case](none, V)
    assert x.requires_grad == bool(np.any(ones != none))
    if x.requires_grad:
        x.sum().backward()
        assert v.grad.numpy().sum() == pytest.approx((ones - none).sum())


def test_a_replacement_without_a_copy_changes_the_tensor():
    x = eo.asarray(np.array([1.0, np.nan]))
    assert np.nan_to_num(x, nan=2.0).tolist() == [1.0, 2.0]
    assert np.nan_to_num(x, copy=False, nan=3.0) is x
    assert x.tolist() == [1.0, 3.0]


def test_a_diagonal_of_a_tall_matrix_ends_or_wraps():
    for wrap in (False, True):
        expected, x = np.zeros((7, 2)), eo.zeros((7, 2))
        np.fill_diagonal(expected, 3.0, wrap=wrap)
        np.fill_diagonal(x, 3.0, wrap=wrap)
        np.testing.assert_array_equal(x.numpy(), expected)


def test_an_array_takes_no_values_that_require_grad():
    assert np.empty_like(tracked(M)).shape == (3, 3)
    for call in (
        lambda a: np.put_along_axis(a, np.array([[0], [1], [2]]), tracked(V)[:, None], axis=1),
        lambda a: np.copyto(a, tracked(V)),
    ):
        with pytest.raises(UnsupportedOperationError, match="place for derivatives"):
            call(M.copy())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.frompyfunc(lambda v: v, 1, 1)(x),
        lambda x: np.spacing(x),
        lambda x: np.emath.sqrt(x),
        lambda x: np.strings.upper(x),
        lambda x: np.pad(x, 1, lambda *a: None),
    ],
)
def test_what_is_not_known_raises(call):
    with pytest.raises(UnsupportedOperationError, match="keeps the derivatives"):
        call(tracked(M))


def test_other_classes_answer_for_themselves():
    class Other:
        __array_ufunc__ = lambda self, ufunc, method, *inputs, **options: "ufunc"  # noqa: E731
        __array_function__ = lambda self, function, types, args, options: "function"  # noqa: E731

    assert np.add(tracked(V), Other()) == "ufunc"
    assert np.concatenate([tracked(V), Other()]) == "function"


# ---- into arrays and out of lists


def test_no_array_is_made_of_what_requires_grad():
    x = tracked(V)
    for call in (
        np.asarray,
        np.array,
        lambda x: np.array([x, x]),
        lambda x: np.array([x[0], 1.0]),
        np.random.permutation,
    ):
        with pytest.raises(GraphStateError, match="detach"):
            call(x)
    np.testing.assert_array_equal(np.asarray(x.detach()), V)


def test_lists_of_tensors_stay_differentiable():
    x, y = tracked(0.5), tracked(2.0)
    out = eo.asarray([[x, y + 1], (np.float64(3.0), x * y)])
    np.testing.assert_allclose(out.detach().numpy(), [[0.5, 3.0], [3.0, 1.0]])
    out.sum().backward()
    assert (x.grad.item(), y.grad.item()) == (3.0, 1.5)
    with pytest.raises(GraphStateError, match="asarray"):
        eo.tensor([x, y])
    assert eo.tensor([x.detach(), 1.0]).tolist() == [0.5, 1.0]


def test_functions_of_several_results_take_a_dtype():
    parts = np.modf(eo.asarray(np.array([1.5, -2.25])), dtype=np.float32)
    assert [(p.dtype, p.tolist()) for p in parts] == [(eo.float32, [0.5, -0.25]), (eo.float32, [1.0, -2.0])]


def test_a_number_is_copied_into_any_integer_dtype_that_holds_it():
    for dtype in (eo.uint8, eo.int8, eo.uint64):
        x = eo.zeros(2, dtype=dtype)
        np.copyto(x, 7)
        assert (x.dtype, x.tolist()) == (dtype, [7, 7])
    x = eo.zeros(2, dtype=eo.uint8)
    with pytest.raises((eo.errors.EveryOError, OverflowError)):
        np.copyto(x, 300)
    assert x.tolist() == [0, 0]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_keep_what_is_given_by_name(save, tmp_path):
    weights = {"layer.weight": eo.ones((2, 3)), "args": eo.full((2,), 5.0)}
    save(tmp_path / "a.npz", eo.zeros(2), n=np.ones(1), **weights)
    with np.load(tmp_path / "a.npz") as found:
        assert sorted(found.files) == ["args", "arr_0", "layer.weight", "n"]
        np.testing.assert_array_equal(found["layer.weight"], np.ones((2, 3)))
        np.testing.assert_array_equal(found["args"], [5.0, 5.0])
    with pytest.raises(GraphStateError, match="would lose its graph"):
        save(tmp_path / "b.npz", w=eo.ones(2).requires_grad_())


def test_forms_of_calls_are_told_apart_after_the_first_of_each():
    """The way of its arguments is kept for each form of a call; a value without a place has another."""
    x = eo.asarray(np.arange(6.0).reshape(2, 3))
    for _ in range(2):
        assert np.sum(x).item() == np.sum(x, None).item() == np.sum(a=x, axis=None).item() == 15
        assert np.sum(x, 1).tolist() == np.sum(x, axis=1).tolist() == np.sum(axis=1, a=x).tolist() == [3, 12]
        assert np.sum(x, axis=0, keepdims=True).shape == (1, 3)
        target = eo.zeros((2,), dtype="float64")
        assert np.sum(x, axis=1, out=target) is target
        assert target.tolist() == [3, 12]
        assert np.concatenate([x, x], axis=1, out=None).shape == (2, 6)
        assert np.concatenate([x, x], dtype="float32").dtype == eo.float32
        with pytest.raises(eo.EveryOError, match=r"casting|dtype"):
            np.concatenate([x, x], dtype="int8", casting="no")
        assert np.partition(x, 1, kind="introselect").shape == (2, 3)
        assert np.median(x, overwrite_input=True).item() == 2.5
        assert np.median(x, overwrite_input=False).item() == 2.5
        with pytest.raises(TypeError):
            np.sum(x, no_such_argument=1)
