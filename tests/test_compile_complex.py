"""Complex numbers in compiled functions: code on their parts, which computes as eager code does."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import everyo as eo
from everyo.compiler.graph import Graph
from everyo.compiler.lowering import Builder
from tests.compiling import agree, array, same

DTYPES = ["complex64", "complex128"]
SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-3, 30.0]
BESIDE = [0.0, -0.0, 2.0, -1.5, np.inf, -np.inf, np.nan, 3e-3, 25.0]


def numbers(*shape, seed=0, dtype="complex128"):
    return eo.asarray((array(*shape, seed=seed) + 1j * array(*shape, seed=seed + 100)).astype(dtype))


def special(dtype):
    """Return all pairs of special parts."""
    z = np.empty((len(SPECIAL), len(BESIDE)), dtype)
    z.real, z.imag = np.array(SPECIAL)[:, None], BESIDE
    return z.reshape(-1)


def identical(found, wanted, tol):
    """Compare each part: the same NaN, the same signs of zeros, and the rest to some relative error."""
    found, wanted = found.numpy(), wanted.numpy()
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    pairs = [(found.real, wanted.real), (found.imag, wanted.imag)] if wanted.dtype.kind == "c" else []
    for f, w in pairs or [(found, wanted)]:
        least = np.finfo(w.dtype).smallest_subnormal if w.dtype.kind == "f" else 0
        np.testing.assert_allclose(f, w, tol, 2 * least)
        if w.dtype.kind == "f":
            zero = (w == 0) & ~np.isnan(wanted)  # beside NaN a zero has no sign
            np.testing.assert_array_equal(np.signbit(f[zero]), np.signbit(w[zero]))


def lowered(f, *args):
    """Return the graph in core operations, as text."""
    return eo.compile.inspect(f)(*args).graphs["lowered"]


def calls(f, *args):
    """Return the names of the primitives that a compiled function calls instead of having code for them."""
    return re.findall(r"primitive=<primitive (\w+)>", lowered(f, *args))


ONE = {
    "real": eo.real, "imag": eo.imag, "conj": eo.conj, "abs": eo.abs, "angle": eo.angle, "sign": eo.sign,
    "negative": eo.negative, "square": eo.square, "exp": eo.exp, "reciprocal": eo.reciprocal,
    "isnan": eo.isnan, "isinf": eo.isinf, "isfinite": eo.isfinite, "not": eo.logical_not,
    "ones": eo.ones_like, "zeros": eo.zeros_like, "narrow": lambda z: z.astype("complex64"),
    "wide": lambda z: z.astype("complex128"), "truth": lambda z: z.astype("bool"),
    "times i": lambda z: z * 1j, "half": lambda z: z / 2, "one over": lambda z: 1 / z,
    "plus": lambda z: z + 1,
    "from": lambda z: 2 - z, "power 0": lambda z: z**0, "power 1": lambda z: z**1, "power 2": lambda z: z**2,
    "power 3": lambda z: z**3, "power -1": lambda z: z**-1, "power -2": lambda z: z**-2,
    "power 5": lambda z: z**5, "where": lambda z: eo.where(z == 0, 1, z),
    "from parts": lambda z: z.real - 1j * z.imag, "log": eo.log, "log2": eo.log2, "log10": eo.log10,
    "sqrt": eo.sqrt, "root": lambda z: z**0.5, "sin": eo.sin, "cos": eo.cos, "sinh": eo.sinh, "cosh": eo.cosh,
    "tan": eo.tan, "tanh": eo.tanh, "power 2.5": lambda z: z**2.5,
}  # fmt: skip
TWO = {
    "add": eo.add, "subtract": eo.subtract, "multiply": eo.multiply, "divide": eo.divide, "equal": eo.equal,
    "not equal": eo.not_equal, "less": eo.less, "less equal": eo.less_equal, "greater": eo.greater,
    "greater equal": eo.greater_equal, "and": eo.logical_and, "or": eo.logical_or, "xor": eo.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_special_values(name, dtype):
    z = eo.asarray(special(dtype))
    with np.errstate(all="ignore"):
        identical(eo.compile(ONE[name])(z), ONE[name](z), 64 * np.finfo(dtype).eps)
    assert not calls(ONE[name], z)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kinds", ["complex complex", "complex real", "real complex", "complex integer"])
@pytest.mark.parametrize("name", TWO)
def test_special_values_of_two(name, kinds, dtype):
    z = special(dtype)
    made = {"complex": z, "real": z.real[:: len(SPECIAL)], "integer": np.arange(-2, 3)}
    first, second = kinds.split()
    x, y = eo.asarray(made[first][:, None]), eo.asarray(made[second])
    with np.errstate(all="ignore"):
        identical(eo.compile(TWO[name])(x, y), TWO[name](x, y), 64 * np.finfo(dtype).eps)
    assert not calls(TWO[name], x, y)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_quotients_neither_overflow_nor_vanish(scale):
    x, y = numbers(50) * scale, numbers(50, seed=1) * scale
    same(eo.divide, x, y)
    identical(eo.compile(eo.reciprocal)(y), eo.reciprocal(y), 1e-15)
    identical(eo.compile(eo.abs)(y), eo.abs(y), 1e-15)


def test_quotients_by_parts_of_other_sizes():
    y = eo.asarray(np.array([1e-200 - 1e200j, -1e200 + 1e-200j, 1e-200 + 1e200j]))
    for f in (eo.reciprocal, lambda y: y**-1):
        identical(eo.compile(f)(y), f(y), 1e-15)


def test_quotients_by_zero():
    x = eo.asarray(special("complex128"))
    with np.errstate(all="ignore"):
        for zero in (0j, -0j, complex(-0.0, 0.0), complex(-0.0, -0.0)):
            y = eo.asarray(np.array(zero))
            identical(eo.compile(eo.divide)(x, y), eo.divide(x, y), 0)


GROWING = {"exp": 1, "sinh": 1, "cosh": 1, "tanh": 1, "sin": 1j, "cos": 1j, "tan": 1j}  # along which axis


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", GROWING)
def test_functions_are_finite_where_exp_of_the_size_is_not(name, dtype):
    edge, least = (88.7, 1e-45) if dtype == "complex64" else (709.7, 5e-324)
    size = np.linspace(-1.2 * edge, 1.2 * edge, 301)
    large = np.append(np.linspace(edge, 2.1 * edge, 50), 1e37)
    points = [
        size + 1j * np.geomspace(1e-3, 1e2, 301),
        large + least * 1j,
        -large + 1e20 * least * 1j,
        large + 0j,
    ]
    f = getattr(eo, name)
    with np.errstate(all="ignore"):
        for z in points:
            x = eo.asarray((GROWING[name] * z).astype(dtype))
            identical(eo.compile(f)(x), f(x), 64 * np.finfo(dtype).eps)


def test_a_tangent_beside_an_infinite_angle_is_nan():
    z = eo.asarray(np.array([complex(500, np.inf), complex(-500, np.nan), complex(3, np.inf)]))
    with np.errstate(all="ignore"):
        identical(eo.compile(eo.tanh)(z), eo.tanh(z), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", [eo.log, eo.sqrt])
def test_logarithms_and_roots_of_all_sizes(f, dtype):
    limits = np.finfo(dtype)
    sizes = np.geomspace(limits.smallest_subnormal, 0.99 * limits.max, 40).astype(limits.dtype)
    turns = np.exp(1j * np.linspace(-3.1, 3.1, 9)).astype(dtype)
    for z in (sizes[:, None] * turns, turns * 0.9999, sizes + 1j * sizes[::-1], -sizes + 1j * sizes[5]):
        x = eo.asarray(z.astype(dtype))
        found, wanted = eo.compile(f)(x).numpy(), f(x).numpy()
        bound = 8 * limits.eps * np.abs(wanted) + 2 * limits.smallest_subnormal
        assert (np.abs(found - wanted) <= bound).all()


TABLE = numbers(3, 4, seed=7)
SHAPED = {
    "reshape": lambda z: eo.reshape(z, (4, 3)) * 2, "transpose": lambda z: z.T * 2,
    "broadcast": lambda z: eo.broadcast_to(z, (2, 3, 4)) * 2, "slice": lambda z: z[::-1, 1:3] * 2,
    "gather": lambda z: z[eo.asarray(np.array([2, 0]))], "stack": lambda z: eo.stack([z, z.real], axis=-1),
    "concat": lambda z: eo.concat([z, eo.ones((1, 4))]), "roll": lambda z: eo.roll(z, 1, axis=1),
    "pad": lambda z: eo.pad(z, 1, constant_values=2 - 3j), "triangle": lambda z: eo.tril(z),
    "sum": eo.sum, "rows": lambda z: eo.sum(z, axis=1), "mean": lambda z: eo.mean(z, axis=0),
    "running": lambda z: eo.cumsum(z, axis=0), "diff": lambda z: eo.diff(z, axis=0),
    "all": lambda z: eo.all(z, axis=0), "any": eo.any, "count": eo.count_nonzero,
    "matmul": lambda z: z @ z.T, "mixed": lambda z: z.real @ z.T, "vector": lambda z: z @ z[0],
    "along": lambda z: eo.take_along_axis(z, eo.argsort(z.real, axis=1), axis=1),
    "update": lambda z: eo.where(eo.arange(4) > 1, z, 1j), "nothing": lambda z: z[:0] * 2,
    "var": lambda z: eo.var(z, axis=1), "std": lambda z: eo.std(z, axis=0, correction=1),
    "norm": eo.vector_norm, "norms": lambda z: eo.vector_norm(z, axis=1, ord=3),
    "std of nothing": lambda z: eo.std(z[:0], axis=0),
    "columns": lambda z: eo.transpose(z) + np.asarray(TABLE).T,
    "mean of nothing": lambda z: eo.mean(z[:0] * 2), "number": lambda z: z[0, 0] * 1j,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPED)
def test_shapes(name, dtype):
    z = numbers(3, 4, dtype=dtype)
    same(SHAPED[name], z)
    assert set(calls(SHAPED[name], z)) <= {"argsort"}


@pytest.mark.parametrize("rank", range(4))
def test_shapes_of_loops(rank):
    """Loops over all axes as one, over several, and over none."""
    shape = (5, 6, 7)[:rank]
    x, y = numbers(*shape), numbers(*shape, seed=1)
    same(lambda x, y: (x * y, x + y.real, eo.sum(x * y), eo.abs(x).sum()), x, y)
    same(lambda x, y: x * y[..., :1] if rank else x * y, x, y)


def test_arrays_in_other_orders():
    z = np.asfortranarray(array(8, 6) + 1j * array(8, 6, seed=1))
    f = eo.compile(lambda z: z * 2j + z.conj())
    for x in (
        z,
        z[::2],
        z[:, ::-1],
        z.T,
        z.astype(">c16"),
        np.lib.stride_tricks.as_strided(z, (8, 6), (0, 16)),
    ):
        agree(f(eo.asarray(x)), f.__wrapped__(eo.asarray(x)))


def test_constants():
    table, one = np.asarray(numbers(7)), np.full(7, 1 + 2j)
    same(lambda z: z * table + one, numbers(7))
    same(lambda z: eo.fft.fft(z) * eo.fft.fft(eo.asarray(table)) + eo.fft.fft(eo.asarray(one)), numbers(7))


def test_what_has_no_code_is_called():
    f = lambda z: eo.fft.ifft(eo.fft.fft(z * 2) * z) + 1  # noqa: E731
    assert calls(f, numbers(6)) == ["dft", "dft"]
    same(f, numbers(6))
    same(lambda z: eo.linalg.inv(z @ z) @ z, numbers(3, 3))
    same(lambda z: eo.arctan(z) + eo.expm1(z), numbers(3, 3, dtype="complex64"))


def test_results_that_are_arguments_or_one_another():
    def f(z):
        w = z * 2
        return z, w, w, z.real, eo.conj(eo.conj(z))

    same(f, numbers(5))


def loss(z, w, x):
    return eo.sum(eo.abs(eo.exp(1j * w * x) * z + z.conj() * x / (z + 3)) ** 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives(dtype):
    z, x = numbers(9, dtype=dtype), eo.asarray(array(9).astype(np.zeros(1, dtype).real.dtype))
    w = eo.asarray(np.asarray(1.3, x.dtype))
    same(eo.grad(loss, argnums=(0, 1, 2)), z, w, x)
    same(lambda z, w, x: eo.jvp(loss, (z, w, x), (z * 1j, w, x)), z, w, x)
    same(lambda z, w, x: eo.vjp(lambda z: eo.exp(z) / z, z)[1](z * 1j), z, w, x)
    same(lambda z, w, x: eo.grad(lambda x: eo.grad(loss, argnums=2)(z, w, x).sum())(x), z, w, x)
    same(lambda z, w, x: eo.vmap(lambda z, x: loss(z, w, x))(z, x), z, w, x)
    assert not calls(eo.grad(loss, argnums=(0, 1, 2)), z, w, x)


def oscillation(z, rate):
    def step(z, c):
        z = z + 0.01 * rate * z + c
        return z, z.real * eo.abs(z)

    return eo.scan(step, z, eo.asarray(array(40)) * 1j)


@pytest.mark.parametrize("shape", [(), (3,), (3, 2)])
def test_scans(shape):
    z, rate = numbers(*shape), numbers(*shape, seed=1)
    same(oscillation, z, rate)
    same(eo.grad(lambda z, r: oscillation(z, r)[1].sum(), argnums=(0, 1)), z, rate)
    same(eo.vmap(oscillation), numbers(2, *shape), numbers(2, *shape, seed=3))
    assert not calls(eo.grad(lambda z, r: oscillation(z, r)[1].sum(), argnums=(0, 1)), z, rate)


def test_calls_inside_of_scans():
    def f(z):
        return eo.scan(lambda z, _: (eo.fft.fft(z) / 3, eo.sum(z)), z, None, length=4)

    same(f, numbers(5))
    same(eo.grad(lambda z: eo.abs(f(z)[0]).sum()), numbers(5))


def test_while_loops():
    def f(c):
        z, n = eo.while_loop(lambda s: eo.abs(s[0]) < 4, lambda s: (s[0] * s[0] + c, s[1] + 1), (c, 0))
        return z, n

    for c in (0.5 + 0.5j, 3j, 1.0 + 0j):
        same(f, eo.asarray(np.array(c)))
    same(eo.grad(lambda c: eo.real(f(c)[0])), eo.asarray(np.array(0.5 + 0.5j)))


def test_branches():
    def f(z):
        return eo.cond(eo.real(z).sum() > 0, lambda z: z * 2j, lambda z: z.conj() / 2, z)

    for z in (numbers(4), -numbers(4)):
        same(f, z)
        same(eo.grad(lambda z: eo.abs(f(z)).sum()), z)
    same(lambda z: eo.vmap(lambda z: eo.cond(z.real > 0, eo.exp, eo.conj, z))(z), numbers(6))


@pytest.mark.parametrize("n", [8, 4096])
def test_states_are_replaced(n):
    """Large ones where they lie; each element is read before either of its parts is written."""
    state, eager = numbers(n), numbers(n)

    def turn(state, x):
        turned = state * (1 + 2j) + x.conj() * state.real
        state[...] = turned
        return eo.abs(turned).sum()

    step, x = eo.compile(lambda x: turn(state, x)), numbers(n, seed=5)
    for _ in range(3):
        place = state.data.ctypes.data
        agree(step(x), turn(eager, x))
        agree(state, eager)
    assert n < 4096 or state.data.ctypes.data == place


def test_states_that_are_exchanged():
    """What is read after one of them was written is the old one."""
    a, b = numbers(4096), numbers(4096, seed=1)
    old_a, old_b = a.numpy().copy(), b.numpy().copy()

    @eo.compile
    def exchange():
        first, second = eo.conj(a), eo.conj(b)
        a[...] = second
        b[...] = first

    places = [x.data.ctypes.data for x in (a, b)]
    exchange()
    np.testing.assert_array_equal(a.numpy(), old_b.conj())
    np.testing.assert_array_equal(b.numpy(), old_a.conj())
    assert places == [x.data.ctypes.data for x in (a, b)]


def test_states_that_are_conjugated():
    state = numbers(4096)
    wanted, place = state.numpy().conj(), state.data.ctypes.data
    flip = eo.compile(lambda: state.__setitem__(..., eo.conj(state)))
    flip()
    np.testing.assert_array_equal(state.numpy(), wanted)
    assert state.data.ctypes.data == place


def test_parameters_and_gradients():
    def trained(compiled):
        p = numbers(5)
        p.requires_grad = True

        def step(x):
            p.grad = None
            loss = eo.sum(eo.abs(p * x - 1) ** 2)
            loss.backward()
            with eo.no_grad():
                p[...] = p - 0.1 * p.grad
            return loss

        run = eo.compile(step) if compiled else step
        return [run(numbers(5, seed=k)) for k in range(4)], p.detach(), p.grad

    agree(trained(True), trained(False))


def test_large_arrays_on_several_threads():
    z = numbers(300, 200)
    f = eo.compile(lambda z: (eo.exp(z) * z, eo.sum(z * z.conj())), threads=2)
    agree(f(z), f.__wrapped__(z), scale=1e5)


def test_mixed_precisions():
    z, x = numbers(5, dtype="complex64"), eo.asarray(array(5))
    same(lambda z, x: (z * x, z + x.astype("float32"), z == x, z * x.astype("float16")), z, x)
    same(lambda z, x: (z == x, z == x.astype("float32")), z.real + 0j, z.real.astype("float64") * (1 + 1e-12))
    same(lambda z: z * z.astype("complex256") if hasattr(np, "complex256") else z, z)


def test_printing(capsys):
    def f(z):
        eo.debug_print("z is {}", z * 2)
        return z

    eo.compile(f)(eo.asarray(np.array(1 + 2j)))
    assert "z is (2+4j)" in capsys.readouterr().out


PROGRAM = """
import numpy as np, everyo as eo
z = eo.asarray(np.arange(6) * (1 + 2j))
print(repr(eo.compile(lambda z: eo.fft.fft(eo.exp(z / 9) * z))(z).numpy().tolist()))
"""


def test_programs_on_disk(tmp_path):
    environment = {**os.environ, "EVERYO_CACHE": "1", "EVERYO_CACHE_DIR": str(tmp_path)}
    run = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True)
        for _ in range(2)
    ]
    assert run[0].stdout == run[1].stdout != b""
    assert list(tmp_path.glob("*.everyo"))


def test_programs_see_no_complex_number():
    assert "c128" not in lowered(oscillation, numbers(3), numbers(3, seed=1))


def memory(f, *args):
    """Return how many bytes a program needs beside its arguments and results."""
    return int(eo.compile.inspect(f)(*args).memory.split()[0])


def test_numbers_are_no_arrays_of_the_program():
    z, one = numbers(7), np.full(7, 1 + 2j)
    text = lowered(lambda x: eo.abs(x * one) + eo.abs(x * 2j), z.real)
    assert "part" not in text


def test_calls_of_both_kinds_of_numbers():
    same(lambda z: eo.linalg.eigh(z @ z.conj().T)[0] + z.real[0], numbers(3, 3))
    same(lambda x: eo.fft.fft(x) * 2, eo.asarray(array(6)))
    same(lambda z: eo.fft.irfft(z * 2), numbers(6))


def test_parts_in_other_places():
    """A number of which a part comes from elsewhere is another one; its own parts together are itself."""
    b = Builder(Graph())
    v, w = (b.graph.input((3, 2), np.float64) for _ in range(2))
    assert b.interleave(b.part(v, 0), b.part(v, 1)) is v
    for pair in ((b.part(v, 1), b.part(v, 0)), (b.part(v, 0), b.part(w, 1)), (b.part(v, 0), b.part(v, 0))):
        assert b.interleave(*pair).op.name == "interleave"
    assert "interleave" not in lowered(lambda z: eo.fft.fft(z), numbers(5))


def test_all_axes_are_one_loop():
    f = lambda x, y: x * y + x.conj()  # noqa: E731
    text = eo.compile.inspect(f)(numbers(5, 6, 7), numbers(5, 6, 7)).llvm
    assert text.count("phi i64") == 1


def test_rows_of_pairs():
    """A nest that begins with an interleaving, of which the last axis is no axis of the loop."""
    x = numbers(6, 40)
    same(lambda x: x / eo.sum(eo.abs(x), axis=1, keepdims=True), x)
    same(
        lambda x: (x * eo.sum(x, axis=1, keepdims=True), eo.abs(x) * eo.abs(x).sum(axis=1, keepdims=True)), x
    )
    same(lambda x: eo.broadcast_to(eo.sum(x, axis=1, keepdims=True), x.shape), x)


def test_cheap_functions_are_computed_again():
    def f(z):
        doubled = z.imag * 2
        return doubled * doubled.sum()

    same(f, numbers(5000))
    assert memory(f, numbers(5000)) < 5000


def test_difference_schemes_are_one_loop():
    def f(z):
        for _ in range(2):
            z = eo.concat([z[:1], z[1:-1] + 0.1 * (z[2:] - 2 * z[1:-1] + z[:-2]), z[-1:]])
        return z

    same(f, numbers(600))
    assert memory(f, numbers(600)) <= numbers(600).nbytes


def test_products_in_panels():
    a, w = eo.asarray(array(3000, 16)), eo.asarray(array(16, 400, seed=1))
    f = lambda a, w: (a @ w).astype("complex128")  # noqa: E731
    same(f, a, w)
    assert memory(f, a, w) < 3000 * 400 * 8


def test_derivatives_of_gathered_elements():
    z, index = numbers(5), eo.asarray(np.array([3, 0, 3]))
    same(lambda z: eo.grad(lambda z: eo.abs(z[index] * z[1:4]).sum())(z), z)
    same(lambda z: eo.vjp(lambda z: z[index], z)[1](z[:3] * 1j), z)


def test_conditions_of_numbers():
    z = eo.asarray(np.array([1j, 0j, 2 + 0j]))
    same(lambda z: (eo.where(z, z + 1, 3), eo.where(z, 1.5, 2.5), eo.where(z, eo.arange(3), z.real)), z)


def test_powers():
    z = numbers(5)
    for n in (-4, 4, 16, 17, -0.5, 2j, 1 + 1j):
        same(lambda z, n=n: z**n, z)
    same(lambda z: z**z, z)
    assert calls(lambda z: (z**17, z ** (1 + 1j), z**16), z) == ["power", "power"]
    huge = eo.asarray(np.array([1e200 + 1j, 3 - 1e180j]))
    with np.errstate(all="ignore"):
        identical(eo.compile(lambda z: z**-2)(huge), huge**-2, 0)
        identical(eo.compile(lambda z: z**np.inf)(huge), huge**np.inf, 0)
        zeros = eo.asarray(np.array([complex(-0.0, 0.0), 1j]))
        for n in (2, np.array([2.0, 2.0])):
            identical(eo.compile(lambda z, n=n: z**n)(zeros), zeros**n, 1e-15)
