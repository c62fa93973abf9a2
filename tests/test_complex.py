"""Complex numbers end to end: gradients are ``dL/dx + i dL/dy``, tangents are directional derivatives."""

import numpy as np
import pytest

import everyo as eo

RNG = np.random.default_rng(11)
Z = RNG.uniform(-1.5, 1.5, (3, 3)) + 1j * RNG.uniform(0.2, 1.2, (3, 3)) * RNG.choice([-1, 1], (3, 3))
W = eo.asarray(RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3)))

HOLOMORPHIC = {
    "exp": eo.exp, "expm1": eo.expm1, "exp2": eo.exp2, "log": eo.log, "log1p": eo.log1p, "log2": eo.log2,
    "log10": eo.log10, "sqrt": eo.sqrt, "square": eo.square, "reciprocal": eo.reciprocal,
    "sin": eo.sin, "cos": eo.cos, "tan": eo.tan, "arcsin": eo.arcsin, "arccos": eo.arccos,
    "arctan": eo.arctan, "sinh": eo.sinh, "cosh": eo.cosh, "tanh": eo.tanh, "arcsinh": eo.arcsinh,
    "arccosh": eo.arccosh, "arctanh": eo.arctanh, "sinc": eo.sinc, "sigmoid": eo.sigmoid, "erf": eo.erf,
    "erfc": eo.erfc, "ndtr": eo.special.ndtr,
    "power 3": lambda z: z**3, "power -2.5": lambda z: z**-2.5, "power 2j": lambda z: z**2j,
    "base": lambda z: 2.0**z, "power z": lambda z: z**z, "times": lambda z: z * W, "over": lambda z: W / z,
    "xlogy": lambda z: eo.special.xlogy(z, W), "xlog1py": lambda z: eo.special.xlog1py(W, z),
    "prod": lambda z: eo.prod(z, axis=1), "cumprod": lambda z: eo.cumprod(z, axis=0),
    "cumsum": lambda z: eo.cumsum(z, axis=1), "mean": lambda z: eo.mean(z, axis=0),
    "matmul": lambda z: z @ W @ z, "einsum": lambda z: eo.einsum("ij,jk,ki->i", z, W, z),
    "tensordot": lambda z: eo.tensordot(z, z, axes=([0], [1])), "trace": eo.trace,
    "dot": lambda z: eo.dot(z[0], z[1]), "fft": eo.fft.fft, "ifft2": eo.fft.ifft2,
    "logsumexp": lambda z: eo.logsumexp(z, axis=0), "softmax": lambda z: eo.softmax(z, axis=1),
}  # fmt: skip

OTHER = {
    "conj": eo.conj, "real": eo.real, "imag": eo.imag, "abs": eo.abs, "angle": eo.angle, "sign": eo.sign,
    "mixed": lambda z: z * eo.conj(z) ** 2, "norm": eo.vector_norm,
    "norm 3": lambda z: eo.vector_norm(z, axis=1, ord=3), "norm 1": lambda z: eo.vector_norm(z, ord=1),
    "var": lambda z: eo.var(z, axis=0), "std": lambda z: eo.std(z, correction=1),
    "vecdot": lambda z: eo.vecdot(z, W), "vdot": lambda z: eo.sum(eo.conj(z) * W),
    "Hermitian": lambda z: eo.conj(z).mT @ z, "irfft": eo.fft.irfft, "hfft": eo.fft.hfft,
    "where": lambda z: eo.where(eo.real(z) > 0, z, eo.conj(z)), "polar": lambda z: eo.abs(z) * eo.exp(1j * z),
    "modulus of fft": lambda z: eo.abs(eo.fft.fft(z)) ** 2,
}  # fmt: skip
FUNCTIONS = {**HOLOMORPHIC, **OTHER}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def weights_of(out):
    ramp = np.arange(1.0, out.size + 1).reshape(out.shape)
    return np.cos(ramp) + 1j * np.sin(2 * ramp)


def loss_of(f):
    def loss(z):
        out = f(z)
        return eo.sum(eo.real(out * eo.asarray(weights_of(out))))

    return loss


def by_differences(loss, z, step=1e-6):
    """Return ``dL/dx + i dL/dy``, element by element."""
    out = np.zeros(z.shape, complex)
    for index in np.ndindex(z.shape):
        for unit in (1, 1j):
            move = np.zeros(z.shape, complex)
            move[index] = step * unit
            ahead, behind = (loss(eo.asarray(z + s * move)).item() for s in (1, -1))
            out[index] += unit * (ahead - behind) / (2 * step)
    return out


@every_function
def test_gradients_against_differences_in_x_and_y(name):
    loss = loss_of(FUNCTIONS[name])
    leaf = eo.tensor(Z, requires_grad=True)
    loss(leaf).backward()
    expected = by_differences(loss, Z)
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=2e-7, atol=2e-7 * np.abs(expected).max())


@every_function
def test_tangents_against_differences_along_a_direction(name):
    f, direction, step = FUNCTIONS[name], np.roll(Z, 1, 1) * (0.5 - 1j), 1e-6
    tangent = eo.jvp(f, (eo.asarray(Z),), (eo.asarray(direction),))[1].numpy()
    ahead, behind = (f(eo.asarray(Z + s * step * direction)).numpy() for s in (1, -1))
    expected = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(tangent, expected, rtol=2e-7, atol=2e-7 * np.abs(expected).max())


@every_function
def test_second_derivatives_against_differences_of_gradients(name):
    gradient = eo.grad(loss_of(FUNCTIONS[name]))
    direction, step = np.roll(Z, 1, 0) * (1 + 0.5j), 1e-6
    found = eo.jvp(gradient, (eo.asarray(Z),), (eo.asarray(direction),))[1].numpy()
    ahead, behind = (gradient(eo.asarray(Z + s * step * direction)).numpy() for s in (1, -1))
    expected = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(expected).max()))


@every_function
def test_single_precision_and_compiled(name):
    loss = loss_of(FUNCTIONS[name])
    single = Z.astype("complex64")
    leaf = eo.tensor(single, requires_grad=True)
    loss(leaf).backward()
    assert leaf.grad.dtype == eo.complex64
    double = eo.grad(loss)(eo.asarray(single.astype(complex))).numpy()
    np.testing.assert_allclose(leaf.grad.numpy(), double, rtol=1e-3, atol=1e-4 * np.abs(double).max())
    compiled = eo.compile(eo.grad(loss))(eo.asarray(Z)).numpy()
    np.testing.assert_allclose(compiled, eo.grad(loss)(eo.asarray(Z)).numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_the_gradient_of_a_holomorphic_function_is_the_conjugate_of_its_derivative(name):
    f = HOLOMORPHIC[name]
    point = eo.asarray(Z)
    jacobian = eo.jacobian(f, holomorphic=True)(point).numpy()
    weights = weights_of(f(point))
    expected = np.conj(np.tensordot(weights, jacobian, weights.ndim))
    found = eo.grad(loss_of(f))(point).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["conj", "abs", "mixed", "var", "vdot"])
def test_other_functions_have_no_holomorphic_jacobian(name):
    with pytest.raises(eo.EveryOError):
        eo.jacobian(OTHER[name], holomorphic=True)(eo.asarray(Z))


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (eo.abs, [0.0, 0.6 + 0.8j]), (eo.angle, [0.0, (-4 + 3j) / 25]), (eo.vector_norm, [0.0, 0.6 + 0.8j]),
        (lambda z: eo.vector_norm(z, ord=1), [0.0, 0.6 + 0.8j]),
        (lambda z: eo.real(eo.prod(z)), [3 - 4j, 0.0]), (lambda z: eo.real(z * z), [0.0, 6 - 8j]),
        (lambda z: eo.std(z, axis=0), [-0.3 - 0.4j, 0.3 + 0.4j]),
    ],
)  # fmt: skip
def test_gradients_at_zero(f, expected):
    z = eo.tensor(np.array([0, 3 + 4j]), requires_grad=True)
    eo.sum(f(z)).backward()
    np.testing.assert_allclose(z.grad.numpy(), expected, rtol=1e-14, atol=1e-15)


def test_a_step_against_the_gradient_goes_downhill():
    z = eo.tensor(np.array([2 - 1j, -1 + 3j]), requires_grad=True)
    target = eo.asarray(np.array([1 + 1j, 2j]))
    for _ in range(60):
        loss = eo.sum(eo.abs(z - target) ** 2)
        z = eo.tensor((z - 0.25 * eo.grad(lambda z: eo.sum(eo.abs(z - target) ** 2))(z)).detach().numpy())
    assert loss.item() < 1e-30


@pytest.mark.parametrize(
    "f",
    [
        lambda x: eo.abs(eo.fft.fft(x)) ** 2,
        lambda x: eo.real(eo.exp(1j * x) @ W),
        lambda x: eo.imag(eo.sqrt(x + 1j)),
        lambda x: eo.abs(x * W + 1) ** 2,
        lambda x: eo.angle(x + 2j),
        lambda x: eo.real(eo.einsum("i,ij->j", x, W)),
    ],
)
def test_real_numbers_in_complex_formulas_have_real_gradients(f):
    x = np.array([0.3, -0.8, 1.4])
    leaf = eo.tensor(x, requires_grad=True)
    eo.sum(f(leaf)).backward()
    assert leaf.grad.dtype == eo.float64
    step = 1e-6
    for i, unit in enumerate(np.eye(3)):
        ahead, behind = (eo.sum(f(eo.asarray(x + s * step * unit))).item() for s in (1, -1))
        assert leaf.grad[i].item() == pytest.approx((ahead - behind) / (2 * step), rel=1e-7, abs=1e-8)


# On a cut, the direction along it, and both sides: the sign of the zero tells the branch.
CUTS = {"arcsin": 1, "arccos": 1, "arccosh": 1, "arctanh": 1, "log": 1, "sqrt": 1, "log1p": 1, "log2": 1,
        "log10": 1, "rsqrt": 1, "arcsinh": 1j, "arctan": 1j}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CUTS)
def test_derivatives_on_a_cut_are_those_of_the_branch_of_the_value(name, compiled):
    function, along = getattr(eo, name), CUTS[name]
    f = eo.compile(function) if compiled else function
    for place in (-2.5, -0.6, 0.6, 2.5):
        for zero in (0.0, -0.0):

            def at(t, place=place, zero=zero):
                return np.array(complex(place + t, zero) if along == 1 else complex(zero, place + t))

            h = 1e-5
            expected = (function(at(h)).numpy() - function(at(-h)).numpy()) / (2 * h)
            if not np.isfinite(expected):
                continue
            z = eo.asarray(at(0.0))
            direction = eo.asarray(np.array(complex(along)))
            tangent = eo.jvp(f, (z,), (direction,))[1].numpy()
            np.testing.assert_allclose(tangent, expected, rtol=1e-6)
            parts = [eo.grad(lambda z, part=part: part(f(z)))(z).numpy() for part in (eo.real, eo.imag)]
            reverse = [(np.conj(g) * along).real for g in parts]
            np.testing.assert_allclose(reverse, [expected.real, expected.imag], rtol=1e-6, atol=1e-9)

            def slope(z, direction=direction):
                return eo.jvp(function, (z,), (direction,))[1]

            second = eo.jvp(slope, (z,), (direction,))[1].numpy()
            slopes = [slope(eo.asarray(at(t))).numpy() for t in (h, -h)]
            np.testing.assert_allclose(second, (slopes[0] - slopes[1]) / (2 * h), rtol=1e-5)


def _thrice(z, w):
    for _ in range(3):
        z = eo.sin(z * w) + z
    return z


def _step(z, w):
    return eo.sin(z * w) + z


WRITTEN = {
    "operations": _thrice,
    "fori_loop": lambda z, w: eo.fori_loop(0, 3, lambda _, s: _step(s, w), z),
    "while_loop": lambda z, w: eo.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, _step(s[1], w)), (eo.asarray(0), z)
    )[1],
    "scan": lambda z, w: eo.scan(lambda s, _: (_step(s, w), s), z, eo.arange(3))[0],
    "cond": lambda z, w: eo.cond(eo.asarray(True), _thrice, lambda z, w: z, z, w),
    "checkpoint": lambda z, w: eo.checkpoint(_thrice)(z, w),
    "vmap": lambda z, w: eo.vmap(_thrice)(z, w),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_complex_derivatives_of_compiled_functions_are_those_of_eager_code(name):
    z, w = eo.asarray(np.array([0.6 + 0.3j, -0.4 + 0.8j])), eo.asarray(np.array([0.5 - 0.7j, 0.2 + 0.9j]))

    def loss(f):
        return lambda z, w: (eo.real(f(z, w)) * eo.asarray([1.0, 2.0])).sum() + (eo.imag(f(z, w)) ** 2).sum()

    def slope(f):
        return lambda z, w: eo.real((eo.grad(loss(f))(z, w) ** 2).sum())

    f = eo.compile(WRITTEN[name])
    for derivative in (loss, slope):
        expected = eo.grad(derivative(_thrice), argnums=(0, 1))(z, w)
        for found in (
            eo.grad(derivative(f), argnums=(0, 1))(z, w),
            eo.compile(eo.grad(derivative(WRITTEN[name]), argnums=(0, 1)))(z, w),
        ):
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-6)
    h = 1e-6  # the function is holomorphic: its Jacobian is diagonal, with the slopes
    steps = [_thrice(z + s, w).numpy() for s in (h, -h)]
    jacobian = eo.jacobian(f, holomorphic=True)(z, w).numpy()
    np.testing.assert_allclose(jacobian, np.diag((steps[0] - steps[1]) / (2 * h)), atol=1e-8)


def test_a_number_is_true_where_either_part_is():
    z = np.array([1j, 2 + 0j, 0j, complex(0, np.nan)])
    np.testing.assert_array_equal(eo.tensor(z).astype("bool").numpy(), z.astype(bool))
