"""einsum: every form of subscripts, exact gradients, NumPy's results, errors."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everyo as eo
from everyo.ops.einsum import _order, _plan
from everyo.testing import check_jvp, gradcheck, gradgradcheck


def random(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s) for s in shapes]


def check_multilinear(function, arrays, gradients, weights):
    """Check the gradient of ``sum(weights * function)``, linear in each array, on all unit arrays."""
    for i, (x, g) in enumerate(zip(arrays, gradients, strict=True)):
        assert g.shape == x.shape
        for index in np.ndindex(x.shape):
            unit = np.zeros_like(x)
            unit[index] = 1.0
            expected = np.sum(weights * function(*arrays[:i], unit, *arrays[i + 1 :]))
            np.testing.assert_allclose(g[index], expected, rtol=1e-10, atol=1e-12)


CASES = [
    # one operand: transposes, sums, traces, diagonals
    ("ij", (2, 3)), ("ba", (2, 3)), ("aB", (2, 3)), ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij->i", (2, 3)),
    ("ijk->kj", (2, 3, 4)), ("", ()), ("->", ()), ("i->i", (0,)), ("ii->", (3, 3)), ("ii", (3, 3)),
    ("ii->i", (3, 3)), ("iij->ij", (2, 2, 3)), ("iji->j", (2, 3, 2)), ("jii->ij", (3, 2, 2)),
    ("iii->i", (2, 2, 2)), ("iii->", (2, 2, 2)), ("ijji->ij", (2, 3, 3, 2)), ("ijij->", (2, 3, 2, 3)),
    ("ii->i", (1, 1)),
    # an ellipsis
    ("...", (2, 3)), ("i...->...i", (2, 3, 4)), ("...i->i...", (2, 3, 4)), ("i...->...", (2, 3)),
    ("...ii->...i", (4, 2, 2)), ("i->...i", (2,)), ("...i", (3,)), ("i...j->j...", (2, 3, 4, 5)),
    # two operands
    ("i,i", (3,), (3,)), ("i,j", (2,), (3,)), ("i,j->ji", (2,), (3,)), ("i,->i", (3,), ()), (",", (), ()),
    ("ij,jk", (2, 3), (3, 4)), ("ij,jk->ki", (2, 3), (3, 4)), ("ij,kj->ik", (2, 3), (4, 3)),
    ("ji,jk->ik", (3, 2), (3, 4)), ("ji,kj->ik", (3, 2), (4, 3)), ("ij,j->i", (2, 3), (3,)),
    ("i,ij->j", (2,), (2, 3)), ("ij,ij->ij", (2, 3), (2, 3)), ("ij,ij->i", (2, 3), (2, 3)),
    ("ij,ij->", (2, 3), (2, 3)), ("ij,kl->", (2, 3), (4, 2)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bij,bjk->ikb", (2, 3, 4), (2, 4, 5)), ("bi,bi->b", (2, 3), (2, 3)),
    ("ijb,bjk->bki", (3, 4, 2), (2, 4, 5)), ("abcd,cdef->efab", (2, 3, 4, 2), (4, 2, 3, 2)),
    ("cdab,cdef->abef", (4, 2, 2, 3), (4, 2, 3, 2)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij,jk->ik", (2, 0), (0, 3)), ("ij,jk->ik", (0, 3), (3, 4)), ("ii,i->i", (3, 3), (3,)),
    ("iij,jk->ki", (2, 2, 3), (3, 4)),
    # axes of size 1 that broadcast
    ("i,i", (2,), (1,)), ("i,i->i", (1,), (3,)), ("i,i->i", (1,), (0,)), ("ij,ij->ij", (2, 1), (1, 3)),
    ("bij,bjk->bik", (2, 3, 4), (1, 4, 5)), ("ij,jk->ik", (2, 1), (3, 4)), ("ii,i->i", (3, 3), (1,)),
    ("i,i->", (1,), (1,)), ("i...,i->...", (2, 2, 2), (2,)), ("...ij,...jk", (2, 1, 3, 4), (5, 4, 2)),
    ("...,...", (), (3,)), ("i...,i...->...", (2, 1), (1, 3)), ("a...,b...", (2, 4), (3, 4)),
    ("i,j->...", (2,), (2,)),
    # more operands
    ("i,i,i->i", (3,), (3,), (3,)), ("i,i,i->", (3,), (1,), (3,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("i,ij,j->", (2,), (2, 3), (3,)), ("ij,jk,ki->", (2, 3), (3, 4), (4, 2)),
    ("i,j,k,l->lkji", (2,), (3,), (1,), (2,)),
    ("ij,jk,kl,lm,mn,no,op->ip", (2, 3), (3, 2), (2, 3), (3, 2), (2, 3), (3, 2), (2, 2)),
    ("...i,...i,i...->...", (2, 3), (3,), (3, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("subscripts", "shapes"), [(c[0], c[1:]) for c in CASES])
def test_values_and_exact_gradients(subscripts, shapes):
    arrays = random(shapes)
    leaves = [eo.tensor(a, requires_grad=True) for a in arrays]
    y = eo.einsum(subscripts, *leaves)
    expected = np.einsum(subscripts, *arrays)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-11, atol=1e-13)
    (weights,) = random([y.shape], seed=1)
    y.backward(eo.tensor(weights))
    check_multilinear(
        lambda *xs: np.einsum(subscripts, *xs), arrays, [x.grad.numpy() for x in leaves], weights
    )


@pytest.mark.parametrize("case", [CASES[i] for i in range(11, len(CASES), 5)], ids=lambda c: c[0])
def test_second_derivatives_and_forward_mode(case):
    subscripts, *shapes = case
    inputs = [eo.tensor(a) for a in random(shapes)]
    if all(x.size for x in inputs):
        for check in (gradcheck, gradgradcheck, check_jvp):
            assert check(lambda *xs: eo.einsum(subscripts, *xs), *inputs)


def test_a_complex_operand():
    a, b = (x + 1j * y for x, y in zip(random([(2, 3), (3, 3)]), random([(2, 3), (3, 3)], 5), strict=True))
    inputs = eo.tensor(a), eo.tensor(b)
    np.testing.assert_allclose(
        eo.einsum("ij,jj->i", *inputs).numpy(), np.einsum("ij,jj->i", a, b), rtol=1e-12
    )
    assert gradcheck(lambda x, y: eo.einsum("ij,jj->i", x, y), *inputs)


def test_the_trace_has_the_identity_as_gradient():
    x = eo.tensor(np.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    y = eo.einsum("ii->", x)
    y.backward()
    assert y.item() == 5.0
    assert x.grad.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_the_diagonal_slabs_get_their_weights_in_order():
    x = eo.tensor(np.arange(8.0).reshape(2, 2, 2), requires_grad=True)
    eo.einsum("iij->ij", x).backward(eo.tensor(np.array([[1.0, 2.0], [3.0, 4.0]])))
    assert x.grad.tolist() == [[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [3.0, 4.0]]]


def test_a_broadcast_operand_keeps_its_shape_in_the_gradient():
    x = eo.tensor(np.array([2.0, 2.0]), requires_grad=True)
    y = eo.tensor(np.array([2.0]), requires_grad=True)
    z = eo.einsum("i,i", x, y)
    z.backward()
    assert (z.item(), x.grad.tolist(), y.grad.tolist()) == (8.0, [2.0, 2.0], [4.0])


def test_one_tensor_in_two_places_and_two_calls_change_nothing():
    array = np.arange(9.0).reshape(3, 3)
    x = eo.from_numpy(array).requires_grad_()
    first, second = eo.einsum("ij,jk->ik", x, x), eo.einsum("ij,jk->ik", x, x)
    np.testing.assert_array_equal(first.detach().numpy(), second.detach().numpy())
    first.backward(eo.ones_like(first))
    assert x.grad.tolist() == [[12.0, 21.0, 30.0], [15.0, 24.0, 33.0], [18.0, 27.0, 36.0]]
    np.testing.assert_array_equal(array, np.arange(9.0).reshape(3, 3))


def test_interleaved_lists_name_axes_with_integers():
    a, b = random([(2, 3, 4), (4, 3)])
    x, y = eo.tensor(a), eo.tensor(b)
    np.testing.assert_allclose(
        eo.einsum(x, [0, 1, 7], y, [7, 1], [1, 0]).numpy(), np.einsum("abc,cb->ba", a, b), rtol=1e-12
    )
    np.testing.assert_allclose(eo.einsum(x, [2, 0, 1]).numpy(), np.einsum(a, [2, 0, 1]), rtol=1e-12)
    np.testing.assert_allclose(
        eo.einsum(x, [Ellipsis, 5], y, [5, 6], [6, Ellipsis]).numpy(),
        np.einsum("...a,ab->b...", a, b),
        rtol=1e-12,
    )


def test_arrays_lists_and_integers_are_operands_too():
    assert eo.einsum("i,i->", np.array([1, 2]), [3, 4]).item() == 11
    small = np.array([100, 100], np.int8)
    assert eo.einsum("i->", eo.tensor(small)).dtype == eo.int8  # as in NumPy: no wider sum
    assert eo.einsum("i->", eo.tensor(small)).item() == np.einsum("i->", small)
    assert eo.einsum("ij->i", eo.tensor(np.array([[True, False], [False, False]]))).tolist() == [True, False]


def test_spaces_mean_nothing():
    a, b = random([(2, 3), (3, 4)])
    y = eo.einsum(" i j , j k -> i k ", eo.tensor(a), eo.tensor(b))
    np.testing.assert_allclose(y.numpy(), a @ b, rtol=1e-12)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "words"),
    [
        ("i->ii", [(2,)], ["'i' twice", "'i->ii'"]),
        ("i->j", [(2,)], ["'j' which no operand has"]),
        ("i", [(2, 3)], ["operand 0 has 2 axes and 1 name", "(2, 3)"]),
        ("i,ijk", [(2,), (2, 3)], ["operand 1 has 2 axes and 3 names"]),
        ("i...j", [(2,)], ["operand 0 has 1 ax", "2 names"]),
        ("i,i", [(2,), (3,)], ["sizes of 'i' do not broadcast: 2 and 3", "(2,), float32 (3,)", "'i,i'"]),
        ("...,...", [(2, 3), (2, 4)], ["the axes of ...", "3 and 4"]),
        ("i", [(2,), (2,)], ["1 operand", "2 given"]),
        ("i,j", [(2,)], ["2 operands", "1 given"]),
        ("i.j", [(2, 2)], ["'i.j' cannot be read"]),
        ("......", [(2,)], ["... stands twice"]),
        ("i>j", [(2, 2)], ["'i>j' cannot be read"]),
        ("i->i->i", [(2,)], ["cannot be read"]),
        ("i1", [(2, 2)], ["'i1' cannot be read"]),
        ("é", [(2,)], ["cannot be read"]),
        ("...i->i", [(3, 2)], ["no place for the axes of ...", "write ... after ->"]),
        ("ii", [(2, 1)], ["operand 0", "'i' repeats", "different sizes"]),
    ],
)
def test_errors_name_subscripts_and_shapes(subscripts, shapes, words):
    with pytest.raises(eo.ShapeError) as caught:
        eo.einsum(subscripts, *map(eo.ones, shapes))
    for word in ("einsum", f"{subscripts!r}", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("operands", [(), (eo.ones(2),), (eo.ones(2), eo.ones(2)), (eo.ones(2), "i")])
def test_missing_subscripts_are_an_error(operands):
    with pytest.raises(eo.DTypeError, match="no subscripts"):
        eo.einsum(*operands)


def test_interleaved_subscripts_appear_in_the_error():
    with pytest.raises(eo.ShapeError, match=r"\[0, 1\], \[1, 1\]"):
        eo.einsum(eo.ones((2, 2)), [0, 1], [1, 1])


def test_products_come_in_the_cheapest_order():
    # (10 x 100)(100 x 5)(5 x 50): 7,500 multiplications from the left, 75,000 from the right.
    cost, pairs = _order(
        (frozenset("ab"), frozenset("bc"), frozenset("cd")),
        frozenset("ad"),
        {"a": 10, "b": 100, "c": 5, "d": 50},
    )
    assert (cost, pairs) == (7500, ((0, 1), (0, 1)))


def test_a_chain_of_many_operands_never_makes_a_large_intermediate():
    letters = "abcdefghijklmnopqrstuvwxyz"
    terms = tuple(frozenset(pair) for pair in itertools.pairwise(letters))
    cost, _ = _order(terms, frozenset("az"), dict.fromkeys(letters, 10))
    assert cost == 24 * 1000


def test_a_plan_is_made_once_for_subscripts_and_shapes():
    x = eo.ones((2, 2))
    eo.einsum("uv,vw->uw", x, x)
    before = _plan.cache_info().hits
    eo.einsum("uv,vw->uw", x, x)
    assert _plan.cache_info().hits == before + 1


@given(st.data())
def test_any_subscripts_agree_with_numpy(data):
    sizes = {label: data.draw(st.integers(0, 3), label=label) for label in "abcd"}
    terms = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    out = "".join(data.draw(st.permutations(used)))[: data.draw(st.integers(0, len(used)))]
    subscripts = ",".join(terms) + "->" + out
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, [sizes[label] for label in term]).astype(float) for term in terms]
    leaves = [eo.tensor(a, requires_grad=True) for a in arrays]
    y = eo.einsum(subscripts, *leaves)
    np.testing.assert_array_equal(y.detach().numpy(), np.einsum(subscripts, *arrays))
    y.backward(eo.ones_like(y))
    for x, a in zip(leaves, arrays, strict=True):  # Euler: a form that is linear in x is x times its gradient
        assert x.grad.shape == a.shape
        assert np.sum(x.grad.numpy() * a) == np.sum(y.detach().numpy())


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("dtypes", [("f4", "f8"), ("f8", "f8"), ("i4", "f4"), ("i8", "u8")])
def test_casting_is_refused_where_numpy_refuses_it(casting, dtypes):
    a, b = (np.ones(3, dtype) for dtype in dtypes)
    try:
        expected = np.einsum("i,i->i", a, b, casting=casting)
    except TypeError:
        with pytest.raises(eo.DTypeError, match="casting"):
            np.einsum("i,i->i", eo.asarray(a), b, casting=casting)
    else:
        found = np.einsum(eo.asarray(a), [0], b, [0], [0], casting=casting)
        np.testing.assert_array_equal(found.numpy(), expected)
        assert found.dtype == expected.dtype


def test_a_casting_that_does_not_exist():
    with pytest.raises(eo.ArgumentError, match="'same_kind'"):
        np.einsum("i,i", eo.ones(2), eo.ones(2), casting="loose")
