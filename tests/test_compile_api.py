"""`everyo.compile` as its users meet it: which arguments share a program, and their layouts."""

import warnings

import numpy as np
import pytest

import everyo as eo
from everyo.errors import ArgumentError, CompileError
from tests.compiling import agree, array, misses, same, tensor

# ---- the cache


def test_one_program_for_each_kind_of_argument():
    f = eo.compile(lambda x: x * 2 + 1)
    x = eo.asarray([1.0, 2.0])
    assert x.dtype == np.float32
    assert f(x).tolist() == [3.0, 5.0]
    assert f(x + 1).tolist() == [5.0, 7.0]
    assert f.cache_info() == (1, 1, 1)
    assert f(eo.asarray([1.0, 2.0, 3.0])).tolist() == [3.0, 5.0, 7.0]
    assert f(eo.asarray(np.array([1, 2], np.int32))).dtype == np.int32
    assert f(x.astype(eo.float32)).dtype == np.float32
    assert f(x.astype(eo.float64)).dtype == np.float64
    assert f.cache_info() == (2, 4, 4)


def test_modes_and_the_default_dtype_are_part_of_the_key():
    """Also for the call right behind another one, which looks whether it can use the same program."""
    x = eo.asarray(np.ones(3, np.float32))
    f = eo.compile(lambda x: x * (2.0 if eo.is_grad_enabled() else 3.0) + eo.ones(3))
    assert [f(x).tolist() for _ in range(2)] == [[3.0] * 3] * 2
    with eo.no_grad():
        assert [f(x).tolist() for _ in range(2)] == [[4.0] * 3] * 2
    assert f(x).tolist() == [3.0] * 3
    before = eo.get_default_dtype()
    eo.set_default_dtype(eo.float64)
    try:
        assert [f(x).dtype for _ in range(2)] == [np.float64] * 2
    finally:
        eo.set_default_dtype(before)
    assert f(x).dtype == np.float32
    assert f.cache_info().misses == 3


def test_an_axis_of_length_one_is_part_of_the_key():
    f = eo.compile(lambda x: x * 2)
    for shape in ((3,), (3, 1), (3, 1, 1), (1, 3), (3,)):
        assert f(eo.ones(shape)).shape == shape
    g = eo.compile(lambda x, y: x + y)
    for shape in ((3,), (3, 1), (1,), (3,)):
        assert g(eo.ones(3), eo.ones(shape)).shape == np.broadcast_shapes((3,), shape)


def test_structure_is_part_of_the_key():
    f = eo.compile(lambda tree: eo.tree_map(lambda x: x + 1, tree))
    x = tensor(2)
    agree(f({"a": x, "b": (x, x)}), {"a": x + 1, "b": (x + 1, x + 1)})
    agree(f([x, {"b": x}]), [x + 1, {"b": x + 1}])
    agree(f({"b": (x, x), "a": x}), {"a": x + 1, "b": (x + 1, x + 1)})
    assert misses(f) == 3  # the function sees the items of a dict in the order of the caller


def test_keyword_arguments():
    f = eo.compile(lambda x, *, scale, shift=0.0: x * scale + shift)
    x = tensor(3)
    agree(f(x, scale=x), x * x)
    agree(f(x, shift=x, scale=x), x * x + x)
    agree(f(x, scale=x, shift=x), x * x + x)
    assert misses(f) == 3


@pytest.mark.parametrize(("first", "second"), [(2, 3), (2.0, 3.5), (True, False)])
def test_numbers_do_not_recompile_on_value(first, second):
    f = eo.compile(lambda x, n: x * n + n)
    for x in (tensor(3), tensor(3).astype(eo.float32), eo.arange(3)):
        for n in (first, second):
            agree(f(x, n), x * n + n, f"{x.dtype} and {n!r}")
    assert misses(f) == 3


def test_numbers_in_tuples_do_not_recompile_on_value():
    f = eo.compile(lambda x, pair: x * pair[0] - pair[1]["shift"])
    x = tensor(2)
    for pair in ((2.0, {"shift": 1}), (3.0, {"shift": -4})):
        agree(f(x, pair), x * pair[0] - pair[1]["shift"])
    assert misses(f) == 1


def test_numbers_take_the_dtype_of_the_tensor_they_meet():
    x = tensor(3).astype(eo.float32)
    assert eo.compile(lambda x, n: x * (n * 2 + 1))(x, 0.5).dtype == np.float32
    assert eo.compile(lambda x, n: x + n)(eo.arange(3), 2).dtype == np.int64
    agree(eo.compile(lambda n: eo.sin(n))(0.5), eo.sin(0.5))


def test_static_arguments_are_values():
    @eo.compile(static_argnums=(1, 2))
    def f(x, n, name):
        for _ in range(n):
            x = getattr(eo, name)(x)
        return x

    x = tensor(3)
    agree(f(x, 3, "sin"), eo.sin(eo.sin(eo.sin(x))))
    agree(f(x, 2, "cos"), eo.cos(eo.cos(x)))
    agree(f(x, 2, "sin"), eo.sin(eo.sin(x)))
    assert misses(f) == 3
    f(x, 2, "sin")
    assert f.cache_info() == (1, 3, 3)


def test_static_values_of_other_types_are_other_values():
    f = eo.compile(lambda x, n: x * n, static_argnums=1)
    x = eo.arange(3)
    for n in (1, 1.0, True):
        agree(f(x, n), x * n, repr(n))
    assert misses(f) == 3


def test_static_arguments_that_come_again_find_their_program():
    f = eo.compile(lambda n, x, y=0, *, scale=1: (x * n + y) * scale, static_argnums=(0, -1))
    x = eo.asarray([1.0, 2.0])

    def values(*args, **kwargs):
        return f(*args, **kwargs).tolist()

    for _ in range(2):
        assert values(3, x, 1) == [4.0, 7.0]
        assert values(3, x, 1) == [4.0, 7.0]
        assert values(3, x, 2) == [5.0, 8.0]
        assert values(3, x, True) == [4.0, 7.0]
        assert values(3, x * 2, 2) == [8.0, 14.0]
        assert values(3, x, 2, scale=x) == [5.0, 16.0]
    assert f.cache_info().misses == 4
    assert f.cache_info().hits == 8


def test_static_arguments_alone():
    f = eo.compile(lambda n: eo.full(2, n, dtype=eo.float64), static_argnums=0)
    assert [f(n).tolist() for n in (1, 1, 2, -0.0, 0.0)] == [[1, 1], [1, 1], [2, 2], [0, 0], [0, 0]]
    assert [np.signbit(f(n).numpy()).tolist() for n in (-0.0, 0.0, -0.0)] == [
        [True] * 2,
        [False] * 2,
        [True] * 2,
    ]


def test_static_arguments_without_hash():
    f = eo.compile(lambda x, n: x, static_argnums=1)
    with pytest.raises(ArgumentError, match="a static argument has no hash"):
        f(tensor(2), [1, 2])


def test_many_compilations_warn_and_name_the_argument():
    f = eo.compile(lambda x, y: x.sum() + y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 9):
            f(tensor(n), 1.0)
        assert not caught
        f(tensor(9), 1.0)
    assert len(caught) == 1
    assert "compiled 9 times: argument 'x' keeps changing" in str(caught[0].message)
    assert caught[0].filename == __file__


def keyword(x, *, scale):
    return x * scale.sum()


CHANGING = {
    "'batch' keeps": (lambda weights, batch: (weights * batch.sum()).sum(), lambda f, n: f(ONE, eo.ones(n))),
    r"p\['data'\]\['x'\]": (
        lambda p: p["data"]["x"].sum() + p["w"],
        lambda f, n: f({"data": {"x": eo.ones(n)}, "w": ONE}),
    ),
    "the structure of argument 'd'": (lambda d: sum(d.values()), lambda f, n: f({str(n): ONE})),
    "argument 'scale'": (keyword, lambda f, n: f(ONE, scale=eo.ones(n))),
    "which arguments": (lambda *xs: sum(xs), lambda f, n: f(*[ONE] * n)),
}
ONE = eo.ones(())


@pytest.mark.parametrize("message", CHANGING)
def test_the_warning_names_what_changes(message):
    f, call = CHANGING[message]
    compiled = eo.compile(f)
    for n in range(1, 9):
        call(compiled, n)
    with pytest.warns(UserWarning, match=message):
        call(compiled, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(compiled, 10)  # the next warning comes after eight more


@pytest.mark.parametrize("named", [False, True])
def test_the_warning_names_a_static_argument(named):
    f = eo.compile(lambda x, n: x * n, static_argnums=-1)

    def call(n):
        return f(ONE, n=n) if named else f(ONE, n)

    for n in range(8):
        call(n)
    with pytest.warns(UserWarning, match="static argument 'n' keeps changing"):
        call(8)


def test_what_cannot_be_an_argument():
    with pytest.raises(ArgumentError, match="static_argnums"):
        eo.compile(lambda x, name: x)(tensor(2), "name")


# ---- arguments of every layout


def layouts():
    x = array(4, 3)
    frozen = x.copy()
    frozen.flags.writeable = False
    padded = np.zeros((4, 5), np.float64)
    padded[:, 1:4] = x
    yield "contiguous", x
    yield "Fortran order", np.asfortranarray(x)
    yield "every second row", array(8, 3)[::2]
    yield "reversed", x[::-1, ::-1]
    yield "inner columns", padded[:, 1:4]
    yield "read-only", frozen
    yield "broadcast", np.broadcast_to(array(3), (4, 3))
    yield "transposed", array(3, 4).T
    yield "unaligned", np.frombuffer(b"\0" + x.tobytes(), np.float64, offset=1).reshape(4, 3)
    yield "other byte order", x.astype(x.dtype.newbyteorder())


@pytest.mark.parametrize(("name", "x"), list(layouts()), ids=lambda p: p if isinstance(p, str) else "")
def test_layouts(name, x):
    f = eo.compile(lambda x: (x * 2 + eo.sum(x, axis=0), x))
    wanted = (x * 2 + x.sum(axis=0), np.array(x, np.float64))
    for _ in range(2):
        for made in (eo.from_numpy(x), x):
            found = f(made)
            agree(found, tuple(eo.asarray(w) for w in wanted), name)
    f(tensor(4, 3))
    agree(f(eo.from_numpy(x)), tuple(eo.asarray(w) for w in wanted), name)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 0, 3), (1, 1, 1)])
def test_shapes_at_the_edges(shape):
    x = tensor(*shape)
    same(
        lambda x: (x * 2, x.sum(), eo.sum(x, axis=0) if x.ndim else x, eo.reshape(x, (-1,)) if x.size else x),
        x,
    )
    same(eo.grad(lambda x: (eo.sin(x) * x).sum()), x)


def test_no_arguments_and_no_results():
    assert eo.compile(lambda: eo.ones(3) * 2)().tolist() == [2.0, 2.0, 2.0]
    assert eo.compile(lambda x: ())(tensor(2)) == ()
    assert eo.compile(lambda x: None)(tensor(2)) is None
    agree(eo.compile(lambda x, y: x)(tensor(2), tensor(3)), tensor(2))


def test_results_that_are_no_computations():
    shown = np.arange(3.0)
    x = tensor(3)
    same(lambda x: {"input": x, "twice": [x, x], "array": shown, "constant": eo.zeros(2)}, x)


def test_a_result_that_no_program_can_make():
    with pytest.raises(CompileError, match="str"):
        eo.compile(lambda x: (x, "done"))(tensor(2))


def test_an_argument_given_twice():
    x = tensor(3)
    agree(eo.compile(lambda a, b: (a + b, a, b))(x, x), (x + x, x, x))


def test_a_result_given_twice():
    x = tensor(3)
    found = eo.compile(lambda x: (lambda y: (y, y, x, x))(eo.sin(x)))(x)
    agree(found, (eo.sin(x), eo.sin(x), x, x))
    assert len({id(a.data) for a in found}) == 4


def test_results_are_fresh_arrays():
    f = eo.compile(lambda x: (x, x, x * 2, eo.reshape(x * 2, (1, -1)), eo.zeros(3)))
    x = eo.asarray([1.0, 2.0, 3.0])
    first = f(x)
    kept = [r.numpy().copy() for r in first]
    for i, result in enumerate(first):
        with eo.no_grad():
            result[...] = -7.0
        for j, other in enumerate(first):
            if j > i:
                np.testing.assert_array_equal(other.numpy(), kept[j])
    assert x.tolist() == [1.0, 2.0, 3.0]
    for result, wanted in zip(f(x), kept, strict=True):
        np.testing.assert_array_equal(result.numpy(), wanted)
    arrays = [r.data for r in f(x)]
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in [*arrays[i + 1 :], x.data])


def test_numpy_arrays_are_arguments():
    f = eo.compile(lambda x, y: x @ y)
    x, y = array(2, 3), array(3, 2)
    np.testing.assert_allclose(f(x, y).numpy(), x @ y, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(f(eo.asarray(x), y).numpy(), x @ y, rtol=1e-15, atol=1e-15)
    assert f(np.float64(2.0) * np.ones(2), np.ones(2)).item() == 4.0


def test_complex_and_half_precision_pass_through():
    z = eo.asarray(array(3) + 1j * array(3, seed=1))
    h = tensor(3).astype(eo.float16)
    same(lambda z: (z, z * 2, z.real, eo.abs(z), eo.reshape(z, (3, 1))), z)
    same(lambda h: (h, h + h, eo.reshape(h, (3, 1)), eo.ones_like(h)), h)
    same(lambda x: (x + eo.full((3,), 2.0 + 1.0j), eo.full((3,), 1.0j)), tensor(3))


def test_an_array_that_changes_shares_no_memory():
    def f(x, y):
        x[0] = 5.0
        return y * 1

    a = np.arange(4.0)
    for other in (a[:], a[::2], eo.asarray(a, copy=False)):
        with pytest.raises(ArgumentError, match="shares memory with another argument"):
            eo.compile(f)(a, other)
        assert a.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert eo.compile(f)(a[:2], a[2:]).tolist() == [2.0, 3.0]
    assert a.tolist() == [5.0, 1.0, 2.0, 3.0]


def test_views_that_have_no_element_in_common_are_apart():
    def f(a, b):
        a += b
        return a * 1

    buffer, matrix = np.arange(6.0), np.arange(6.0).reshape(3, 2)
    assert eo.compile(f)(buffer[::2], buffer[1::2]).tolist() == [1.0, 5.0, 9.0]
    assert buffer.tolist() == [1.0, 1.0, 5.0, 3.0, 9.0, 5.0]
    eo.compile(f)(matrix[:, 0], matrix[:, 1])
    assert matrix.tolist() == [[1.0, 1.0], [5.0, 3.0], [9.0, 5.0]]
    with pytest.raises(ArgumentError, match="shares memory with another argument"):
        eo.compile(f)(buffer[::2], buffer[:3])


def test_a_static_argument_of_a_function_without_a_signature_has_no_name():
    class Scaled:
        __signature__ = "none"

        def __call__(self, x, n):
            return x * n

    f = eo.compile(Scaled(), static_argnums=-1)
    for n in range(8):
        f(ONE, n)
    with pytest.warns(UserWarning, match="a static argument keeps changing"):
        f(ONE, 8)
