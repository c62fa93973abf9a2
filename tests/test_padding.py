"""`eo.pad`: NumPy's values in all modes and forms of settings, derivatives, and errors."""

import numpy as np
import pytest

import everyo as eo
from everyo.ops import padding

M = np.array([[0.3, 1.7, 0.9], [2.2, 0.4, 1.1]])
CALLS = {
    "constant": ((2, 1), "constant", {}),
    "constants": (((1,), (2,)), "constant", {"constant_values": ((1.5, 2.0), (3.0, 4.5))}),
    "constants of ends": (1, "constant", {"constant_values": (7.0, 8.0)}),
    "edge": ({1: (3, 0)}, "edge", {}),
    "reflect": (((4, 1), (5, 6)), "reflect", {"reflect_type": "even"}),
    "reflect odd": (((4, 1), (5, 6)), "reflect", {"reflect_type": "odd"}),
    "symmetric": (((3, 5), (4, 7)), "symmetric", {}),
    "symmetric odd": (((3, 5), (4, 7)), "symmetric", {"reflect_type": "odd"}),
    "wrap": (np.array([[1, 4], [5, 2]]), "wrap", {}),
    "linear_ramp": (((2, 0), (3, 1)), "linear_ramp", {}),
    "linear_ramp to": (2, "linear_ramp", {"end_values": ((1.0, 5.0), (-2.0, 0.0))}),
    "maximum": (2, "maximum", {}),
    "minimum": ([1, 2], "minimum", {"stat_length": 2}),
    "mean": (((1, 2), (0, 3)), "mean", {"stat_length": ((2, 1), (3, 2))}),
    "median": ((2,), "median", {"stat_length": (1, 3)}),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name):
    width, mode, options = CALLS[name]

    def f(x):
        return eo.pad(x, width, mode, **options)

    want = np.pad(M, width, mode, **options)
    x = eo.asarray(M)
    np.testing.assert_allclose(f(x).numpy(), want, rtol=1e-14)
    np.testing.assert_allclose(eo.compile(f)(x).numpy(), want, rtol=1e-14)
    batch = eo.vmap(f)(eo.stack([x, 2 * x])).numpy()
    np.testing.assert_allclose(batch[1], np.pad(2 * M, width, mode, **options), rtol=1e-14)
    assert eo.testing.gradcheck(f, x)
    assert eo.testing.check_jvp(f, x)
    assert eo.testing.gradgradcheck(lambda x: f(x) ** 2, x)


CUBE = np.random.default_rng(0).integers(-9, 9, (3, 2, 4)).astype(float)[:, :, ::-1]  # ties, zeros


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "int16", "bool"])
@pytest.mark.parametrize("mode", padding._OPTIONS)
def test_several_axes_at_once_or_in_pieces(mode, dtype, at_once, monkeypatch):
    monkeypatch.setattr(padding, "_LARGE", 10**9 if at_once else 0)
    if mode == "empty" or (dtype == "bool" and mode == "median"):  # NumPy has no such
        return
    a = np.where(CUBE == 0, -0.0, CUBE).astype(dtype)
    for width in (((2, 1), (0, 3), (4, 0)), ((0, 0), (1, 2), (2, 2)), 3):
        got, want = eo.pad(eo.asarray(a), width, mode).numpy(), np.pad(a, width, mode)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-15)
        if dtype == "float64":
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("name", CALLS)
def test_derivatives_in_pieces(name, monkeypatch):
    monkeypatch.setattr(padding, "_LARGE", 0)
    width, mode, options = CALLS[name]

    def f(x):
        return eo.pad(x, width, mode, **options)

    x = eo.asarray(M)
    np.testing.assert_allclose(f(x).numpy(), np.pad(M, width, mode, **options), rtol=1e-14)
    batch = eo.vmap(f)(eo.stack([x, 2 * x])).numpy()
    np.testing.assert_allclose(batch[1], np.pad(2 * M, width, mode, **options), rtol=1e-14)
    assert eo.testing.gradcheck(f, x)
    assert eo.testing.check_jvp(f, x)
    assert eo.testing.gradgradcheck(lambda x: f(x) ** 2, x)


def test_one_statistic_serves_both_ends():
    def reductions(**options):
        found = eo.compile.inspect(lambda x: eo.pad(x, ((2, 3), (0, 0)), "maximum", **options))(eo.asarray(M))
        return found.graphs["traced"].count("= max(")

    assert reductions() == reductions(stat_length=(2, 7)) == 1
    assert reductions(stat_length=(2, 1)) == 2


UNORDERED = [name for name, (_, mode, _) in CALLS.items() if mode not in ("maximum", "minimum", "median")]
DTYPES = [(n, d) for n in CALLS for d in ("int64", "uint8", "float16", "float32")]


@pytest.mark.parametrize(("name", "dtype"), [*DTYPES, *((n, "complex128") for n in UNORDERED)])
def test_dtypes_are_those_of_numpy(name, dtype):
    width, mode, options = CALLS[name]
    options = {k: v if k in ("stat_length", "reflect_type") else np.abs(np.rint(v)).astype(int).tolist()
               for k, v in options.items()}  # fmt: skip
    a = (M * 10).astype(dtype)
    got, want = eo.pad(eo.asarray(a), width, mode, **options), np.pad(a, width, mode, **options)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-3 if dtype == "float16" else 1e-6)


def test_modes_where_nothing_is_to_be_mirrored():
    x = eo.tensor([[3.0]])
    for mode in ("reflect", "symmetric"):
        for kind in ("even", "odd"):
            got = eo.pad(x, 2, mode, reflect_type=kind).numpy()
            np.testing.assert_array_equal(got, np.pad(x.numpy(), 2, mode, reflect_type=kind))
    assert eo.pad(eo.tensor(2.0), 3, "edge").item() == 2.0
    assert eo.pad(eo.ones((0, 2)), ((0, 0), (1, 0)), "maximum").shape == (0, 3)
    assert eo.pad(eo.ones(2), 1, "empty").tolist()[1:3] == [1.0, 1.0]


def test_an_infinite_end_stays_at_its_end():
    x = eo.tensor([1.0, 2.0, float("inf")])
    got = eo.pad(x, (1, 0), "reflect", reflect_type="odd")
    np.testing.assert_array_equal(got.numpy(), [0.0, 1.0, 2.0, np.inf])


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("width", [1, 3, 4, (9, 2), (0, 8), (5, 31)])
def test_infinities_are_mirrored_at_points_as_in_numpy(mode, width):
    inf = np.inf
    for values in ([1, inf, 3], [inf, 1, 2], [-inf, inf, 0], [1, 2, 3, inf], [np.nan, 1], [inf, 1], [inf]):
        a = np.array(values, float)
        with np.errstate(invalid="ignore"):
            expected = np.pad(a, width, mode, reflect_type="odd")
            for way in (lambda f: f, eo.compile, lambda f: lambda x: eo.vmap(f)(x[None])[0]):
                pad = way(lambda x: eo.pad(x, width, mode, reflect_type="odd"))
                np.testing.assert_array_equal(pad(eo.asarray(a)).numpy(), expected)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64"])
def test_mirroring_at_a_point_without_floats_is_numpys(mode, dtype):
    a = np.array([[1, 0, 1], [0, 0, 1]]).astype(dtype) * np.array(100 if dtype != "bool" else 1, dtype)
    for width in (1, 2, ((5, 1), (0, 9))):
        with np.errstate(over="ignore"):
            expected = np.pad(a, width, mode, reflect_type="odd")
            found = eo.pad(eo.asarray(a), width, mode, reflect_type="odd")
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.numpy(), expected)


def test_mirroring_at_a_point_several_times_has_a_gradient():
    x = np.array([[1.0, 3.0, 2.0], [0.5, -1.0, 4.0]])
    for mode in ("reflect", "symmetric"):

        def pad(t, mode=mode):
            return eo.pad(t, ((3, 0), (7, 11)), mode, reflect_type="odd")

        assert eo.testing.gradcheck(pad, x)
        assert eo.testing.check_jvp(pad, x)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: eo.pad(x, ((1, 1), 2)), eo.ShapeError, "pairs"),
        (lambda x: eo.pad(x, ()), eo.ShapeError, "pairs"),
        (lambda x: eo.pad(x, None), eo.ShapeError, "pairs"),
        (lambda x: eo.pad(x, {0: -1}), eo.ShapeError, "none negative"),
        (lambda x: eo.pad(x, {2: 1}), eo.IndexingError, "axis 2"),
        (lambda x: eo.pad(x, 1, "mean", stat_length=0), eo.ShapeError, "stat_length"),
        (lambda x: eo.pad(x, 1, constant_values=((1, 2, 3),)), eo.ShapeError, "constant_values"),
        (lambda x: eo.pad(x.astype("uint8"), 1, constant_values=300), eo.ArgumentError, "outside the range"),
        (lambda x: eo.pad(x.astype("int8"), 1, "linear_ramp", end_values=-129), eo.ArgumentError, "-128 to"),
        (lambda x: eo.pad(x, 1, "linear_ramp", end_values=1j), eo.DTypeError, "imaginary|complex"),
        (lambda x: eo.pad(x, 1, "mean", end_values=2.0), eo.ArgumentError, "does not take end_values"),
        (lambda x: np.pad(x, 1, "edge", constant_values=2.0), eo.ArgumentError, "does not take"),
        (lambda x: eo.pad(x, 1, "reflect", reflect_type="both"), eo.ArgumentError, "reflect_type"),
        (lambda x: eo.pad(x, 1, lambda *a: None), eo.ArgumentError, "eo.concat"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call(eo.asarray(M))


@pytest.mark.parametrize("bad", ["a", None, {}, len, 1j], ids=repr)
def test_constants_that_are_no_real_numbers(bad):
    for values in (bad, (bad, bad), ((1.0, bad),)):
        with pytest.raises(eo.DTypeError):
            eo.pad(eo.asarray(M), 1, constant_values=values)


def test_positions_of_arguments_as_in_numpy():
    a = np.arange(9.0).reshape(3, 3)
    x = eo.asarray(a)
    for ours, theirs in ((eo.tril, np.tril), (eo.triu, np.triu)):
        np.testing.assert_array_equal(ours(x, 1).numpy(), theirs(a, 1))
        np.testing.assert_array_equal(ours(x, k=-1).numpy(), theirs(a, -1))
        for k in (-1, 0, 2):
            np.testing.assert_array_equal(ours(x[1], k).numpy(), theirs(a[1], k))
            np.testing.assert_array_equal(
                eo.vmap(lambda v, k=k, f=ours: f(v, k))(x).numpy()[2], theirs(a[2], k)
            )
            assert eo.testing.gradcheck(lambda v, k=k, f=ours: f(v, k), a[1])
        assert ours(eo.zeros(0)).shape == (0, 0)
        with pytest.raises(eo.ShapeError, match="no matrix"):
            ours(eo.tensor(1.0))
    for ours, theirs in ((eo.fft.fftfreq, np.fft.fftfreq), (eo.fft.rfftfreq, np.fft.rfftfreq)):
        np.testing.assert_allclose(ours(5, 0.5).numpy(), theirs(5, 0.5), rtol=1e-6)
    for ours, theirs in ((eo.fft.fftshift, np.fft.fftshift), (eo.fft.ifftshift, np.fft.ifftshift)):
        np.testing.assert_array_equal(ours(x, 1).numpy(), theirs(a, 1))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_mirroring_at_a_point_several_times_does_not_overflow_on_the_way(dtype):
    big = np.finfo(dtype).max / 1.5
    x = np.array([big, 1.0], dtype)
    with np.errstate(over="ignore"):
        ours = eo.pad(x, (0, 2), "reflect", reflect_type="odd")
        assert ours.dtype == dtype
        exact = np.array([big, 1.0, 2 - np.float64(x[0]), -np.inf])
        np.testing.assert_allclose(ours.numpy(), exact, rtol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("kind", ["int64", "int8", "uint8", "uint64"])
def test_positions_outside_with_and_without_a_gradient(mode, kind):
    x, places = np.arange(12.0).reshape(3, 4), np.array([0, 7, 2, 100]).astype(kind)
    places = places if kind[0] == "u" else np.concatenate([places, [-1, -9]]).astype(kind)
    expected = np.take(x, places.astype("int64"), axis=1, mode=mode)
    for point in (eo.asarray(x), eo.tensor(x, requires_grad=True)):
        np.testing.assert_array_equal(eo.take(point, places, axis=1, mode=mode).detach().numpy(), expected)
