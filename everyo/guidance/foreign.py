"""What functions of Python, NumPy and SciPy are here: the same name only where it means the same.

A rule is ``parameters: expression``, with the parameters of the foreign function, and is read with the
arguments of a call (`everyo.guidance.rules`). An expression that is a string is a sentence.
"""

from __future__ import annotations

# Functions that take the same arguments here and give the same, by module and by where they are here.
SAME = {
    "math": {
        "eo": "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh degrees erf erfc exp exp2 "
        "expm1 fabs floor fmod frexp isfinite isinf isnan ldexp log10 log1p log2 modf radians sin sinh sqrt "
        "tan tanh trunc",
        "eo.special": "gamma",
    },
    "cmath": {"eo": "isfinite isinf isnan"},
    "statistics": {"eo": "mean median"},
    "scipy.special": {
        "eo": "logsumexp sinc softplus",
        "eo.special": "multigammaln polygamma zeta",
    },
    "scipy.linalg": {
        "eo": "block_diag kron",
        "eo.linalg": "det eig eigvals inv lstsq lu_factor lu_solve norm pinv solve sqrtm svdvals",
    },
    "scipy.fft": {
        "eo.fft": "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn "
        "rfft rfft2 rfftfreq rfftn",
    },
    "scipy.integrate": {"eo": "trapezoid"},
}  # fmt: skip

_Z = "eo.exp(-((x - loc) / scale) ** 2 / 2) / (scale * 2.5066282746310002)"
_LOG_Z = "-((x - loc) / scale) ** 2 / 2 - (0 if scale == 1 else {log}) - 0.9189385332046727"
_LOG = "(math.log({0}) if plain({0}) else eo.log({0}))"
_LGAMMA = "(math.lgamma({0}) if plain({1}) else eo.special.gammaln({0}))"
_DRAWN = "shape_of({}) if size is None else size"
_NO_DRAW = "*_, **__: 'draws of {owner}.%s have no derivative: pass it x.detach()'"
_BOTH = "loc=0.0, scale=1.0, size=None: "
_STANDARD = _DRAWN.format("loc, scale")
# For draws: NumPy's generators, old and new.
DRAWS = {
    "normal": f"{_BOTH}loc + scale * owner.standard_normal({_STANDARD})",
    "laplace": f"{_BOTH}loc + scale * owner.laplace(0.0, 1.0, {_STANDARD})",
    "logistic": f"{_BOTH}loc + scale * owner.logistic(0.0, 1.0, {_STANDARD})",
    "gumbel": f"{_BOTH}loc + scale * owner.gumbel(0.0, 1.0, {_STANDARD})",
    "lognormal": "mean=0.0, sigma=1.0, size=None: "
    f"eo.exp(mean + sigma * owner.standard_normal({_DRAWN.format('mean, sigma')}))",
    "uniform": "low=0.0, high=1.0, size=None: "
    f"low + (high - low) * owner.random({_DRAWN.format('low, high')})",
    "exponential": f"scale=1.0, size=None: scale * owner.standard_exponential({_DRAWN.format('scale')})",
    "rayleigh": f"scale=1.0, size=None: scale * owner.rayleigh(1.0, {_DRAWN.format('scale')})",
    "multivariate_normal": "mean, cov: mean + eo.linalg.cholesky(cov) @ owner.standard_normal(len(mean))",
    "gamma": "shape, scale=1.0, size=None: 'the draws follow {scale}, not {shape}: write {scale} * "
    "{owner}.standard_gamma of a constant shape'",
    **{name: _NO_DRAW % name for name in ("poisson", "binomial", "beta", "choice", "dirichlet", "chisquare")},
    **{name: _NO_DRAW % name for name in ("geometric", "multinomial", "negative_binomial", "standard_gamma")},
    **{name: _NO_DRAW % name for name in ("integers", "randint", "standard_t", "wald", "weibull", "pareto")},
}  # fmt: skip

_INSIDE = "(x - loc) / scale"
# For methods of distributions of `scipy.stats`.
DISTRIBUTIONS = {
    "norm.pdf": f"x, loc=0, scale=1: {_Z}",
    "norm.logpdf": f"x, loc=0, scale=1: {_LOG_Z.format(log=_LOG.format('scale'))}",
    "norm.cdf": f"x, loc=0, scale=1: eo.special.ndtr({_INSIDE})",
    "norm.logcdf": f"x, loc=0, scale=1: eo.special.log_ndtr({_INSIDE})",
    "norm.sf": "x, loc=0, scale=1: eo.special.ndtr((loc - x) / scale)",
    "norm.logsf": "x, loc=0, scale=1: eo.special.log_ndtr((loc - x) / scale)",
    "norm.ppf": "q, loc=0, scale=1: loc + scale * eo.special.ndtri(q)",
    "norm.isf": "q, loc=0, scale=1: loc - scale * eo.special.ndtri(q)",
    "expon.pdf": f"x, loc=0, scale=1: eo.where(x >= loc, eo.exp(-({_INSIDE})) / scale, 0.0)",
    "expon.logpdf": f"x, loc=0, scale=1: -({_INSIDE}) - (0 if scale == 1 else {_LOG.format('scale')})"
    "  # where x >= loc",
    "expon.cdf": f"x, loc=0, scale=1: -eo.expm1(-({_INSIDE}))  # where x >= loc",
    "gamma.logpdf": "x, a, loc=0, scale=1: eo.special.xlogy(a - 1, (x - loc) / scale) - (x - loc) / scale "
    f"- {_LOG.format('scale')} - {_LGAMMA.format('a', 'a')}  # where x > loc",
    "gamma.cdf": "x, a, loc=0, scale=1: eo.special.gammainc(a, (x - loc) / scale)  # where x >= loc",
    "beta.logpdf": "x, a, b: eo.special.xlogy(a - 1, x) + eo.special.xlog1py(b - 1, -x) - "
    f"{_LGAMMA.format('a', 'a')} - {_LGAMMA.format('b', 'b')} + "
    "((math.lgamma(a + b) if plain(b) else eo.special.gammaln(a + b)) if plain(a) else "
    "eo.special.gammaln(a + b))  # where 0 < x < 1",
    "beta.cdf": "x, a, b: eo.special.betainc(a, b, x)  # where 0 <= x <= 1",
    "chi2.cdf": "x, df: eo.special.gammainc(df / 2, x / 2)  # where x >= 0",
    "poisson.logpmf": f"k, mu: eo.special.xlogy(k, mu) - {_LGAMMA.format('k + 1', 'k')} - mu"
    "  # for whole numbers k >= 0",
}  # fmt: skip

_COMPLEX = "x: eo.{}(x.astype(eo.complex128))"
_WITHIN = "(len(v) - 1) // 2"
_OF_VECTORS = "  # of vectors"


def _moded(name: str) -> str:
    return (
        f"u, v, mode='full', method='auto': eo.{name}(u, v, mode=mode) if mode != 'same' else "
        f"eo.{name}(u, v, mode='full')[{_WITHIN}:][:len(u)]{_OF_VECTORS}"
    )


_METRICS = (
    "eo.cdist(a, b) if metric == 'euclidean' else eo.cdist(a, b, p=1) if metric == 'cityblock' else "
    "eo.cdist(a, b, p=eo.inf) if metric == 'chebyshev' else "
    "eo.cdist(a, b, p=p) if metric == 'minkowski' else "
    "((a[:, None] - b) ** 2).sum(axis=-1) if metric == 'sqeuclidean' else "
    "'write the distance by broadcasting, from {a}[:, None] - {b}: eo.cdist has those of powers p'"
)
_SQUARE = "((a[eo.triu_indices(len(a), 1)[0]] - a[eo.triu_indices(len(a), 1)[1]]) ** 2).sum(axis=-1)"
# For functions that have another signature, other defaults or another name here.
RULES: dict[str, dict[str, str]] = {
    "math": {
        "pow": "x, y: eo.power(x, y)",
        "fsum": "x: eo.sum(x)",
        "prod": "x, *, start=1: start * eo.prod(x)",
        "sumprod": "p, q: eo.sum(eo.multiply(p, q))",
        "dist": "p, q: eo.linalg.norm(eo.subtract(p, q))",
        "hypot": "*sides: eo.linalg.norm([*sides])",
        "lgamma": "x: eo.special.gammaln(x)",
        "remainder": "x, y: x - y * eo.round(x / y)",
        "log": f"x, base=None: eo.log(x) if base is None else {_LOG.format('x')} / {_LOG.format('base')}",
        "isclose": "a, b, *, rel_tol=1e-09, abs_tol=0.0: eo.abs(a - b) <= (rel_tol * eo.maximum(eo.abs(a), "
        "eo.abs(b)) if abs_tol == 0 else eo.maximum(abs_tol, rel_tol * eo.maximum(eo.abs(a), eo.abs(b))))",
        "ulp": "x: eo.nextafter(eo.abs(x), eo.inf) - eo.abs(x)",
    },
    "cmath": {
        **{name: _COMPLEX.format(name) for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")},
        **{name: _COMPLEX.format(name) for name in ("cosh", "exp", "log10", "sin", "sinh", "sqrt", "tan")},
        **{name: _COMPLEX.format(name) for name in ("tanh", "cos")},
        "log": "x, base=None: eo.log(x.astype(eo.complex128)) if base is None else "
        f"eo.log(x.astype(eo.complex128)) / {_LOG.format('base')}",
        "phase": "x: eo.angle(x)",
        "polar": "x: (eo.abs(x), eo.angle(x))",
        "rect": "r, phi: r * eo.exp(1j * phi)",
    },
    "statistics": {
        "fmean": "x: eo.mean(x)",
        "pvariance": "x: eo.var(x, correction=0)",
        "pstdev": "x: eo.std(x, correction=0)",
        "variance": "x: eo.var(x, correction=1)",
        "stdev": "x: eo.std(x, correction=1)",
        "geometric_mean": "x: eo.exp(eo.mean(eo.log(x)))",
        "harmonic_mean": "x: 1 / eo.mean(eo.reciprocal(x))",
    },
    "scipy.special": {
        "softmax": "x, axis=None: eo.softmax(x, axis=axis)",
        "log_softmax": "x, axis=None: eo.log_softmax(x, axis=axis)",
        "factorial": "n: eo.special.gamma(eo.add(n, 1.0))",
        "comb": "N, k: eo.exp(-eo.special.betaln(eo.subtract(N, k) + 1.0, eo.add(k, 1.0))) / (N + 1.0)",
        "perm": "N, k: eo.exp(eo.special.gammaln(eo.add(N, 1.0)) - "
        "eo.special.gammaln(eo.subtract(N, k) + 1.0))",
    },
    "scipy.linalg": {
        "cholesky": "a, lower=False: eo.linalg.cholesky(a, upper=not lower)",
        "cho_factor": "a, lower=False: (eo.linalg.cholesky(a, upper=not lower), lower)",
        "cho_solve": "c, b: eo.linalg.cholesky_solve(b, c[0], upper=not c[1])",
        "qr": "a, *, mode='full', pivoting=False: 'eo.linalg.qr has no pivoting: use eo.custom_vjp around "
        "{path}' if pivoting is True else eo.linalg.qr(a, mode='reduced' if mode == 'economic' else "
        "'complete') if mode != 'r' else (eo.linalg.qr(a, mode='complete')[1],)",
        "eigh": "a, b=None, *, lower=True, eigvals_only=False: "
        "(eo.linalg.eigvalsh(a, UPLO='L' if lower else 'U') if eigvals_only else "
        "eo.linalg.eigh(a, UPLO='L' if lower else 'U')) if b is None else "
        "'with L = eo.linalg.cholesky({b}) and w, y = eo.linalg.eigh(eo.linalg.solve(L, "
        "eo.linalg.solve(L, {a}).mT)) the eigenvalues are w, the vectors eo.linalg.solve(L.mT, y)'",
        "eigvalsh": "a, b=None, *, lower=True: eo.linalg.eigvalsh(a, UPLO='L' if lower else 'U') "
        "if b is None else 'with L = eo.linalg.cholesky({b}) write eo.linalg.eigvalsh(eo.linalg.solve(L, "
        "eo.linalg.solve(L, {a}).mT))'",
        "expm": "A: eo.linalg.matrix_exp(A)",
        "logm": "A: eo.linalg.logm(A)",
        "svd": "a, full_matrices=True, compute_uv=True: eo.linalg.svd(a, full_matrices=full_matrices) "
        "if compute_uv else eo.linalg.svdvals(a)",
        "lu": "a: eo.linalg.lu(a)",
        "solve_triangular": "a, b, trans=0, lower=False, unit_diagonal=False: "
        "eo.linalg.solve_triangular(a, b, upper=not lower, unitriangular=unit_diagonal) if trans in (0, 'N') "
        "else eo.linalg.solve_triangular(a.T, b, upper=lower, unitriangular=unit_diagonal)",
        "circulant": "c: c[(eo.arange(len(c))[:, None] - eo.arange(len(c))) % len(c)]",
        "toeplitz": "c, r=None: c[eo.abs(eo.arange(len(c))[:, None] - eo.arange(len(c)))] if r is None else "
        "eo.where(eo.arange(len(c))[:, None] >= eo.arange(len(r)), "
        "c[eo.abs(eo.arange(len(c))[:, None] - eo.arange(len(r))) % len(c)], "
        "r[eo.abs(eo.arange(len(c))[:, None] - eo.arange(len(r))) % len(r)])",
        "diagsvd": "s, M, N: eo.pad(eo.diag(s), ((0, M - len(s)), (0, N - len(s))))",
    },
    "scipy.signal": {
        "convolve": _moded("convolve"),
        "correlate": _moded("correlate"),
        "fftconvolve": _moded("convolve").replace(", method='auto'", ""),
        "oaconvolve": _moded("convolve").replace(", method='auto'", ""),
        "convolve2d": "a, k, mode='full': eo.conv2d(a[None, None], eo.flip(k)[None, None], "
        "padding=0 if mode == 'valid' else (k.shape[0] - 1, k.shape[1] - 1))[0, 0] if mode != 'same' else "
        "'eo.conv2d of {a}[None, None] and eo.flip({k})[None, None], with eo.pad for the border'",
        "square": "t, duty=0.5: eo.where(eo.remainder(t, 2 * eo.pi) < 2 * eo.pi * duty, 1.0, -1.0)",
        "sawtooth": "t: eo.remainder(t, 2 * eo.pi) / eo.pi - 1",
    },
    "scipy.spatial": {
        "cdist": f"a, b, metric='euclidean', *, p=2: {_METRICS}",
        "pdist": "a, metric='euclidean', *, p=2: "
        + _METRICS.partition(" else ((")[0].replace("eo.cdist(a, b", "eo.pdist(a")
        + f" else {_SQUARE} if metric == 'sqeuclidean' else "
        "'write the distance from {a}[i] - {a}[j] with i, j = eo.triu_indices(len({a}), 1)'",
        "euclidean": "u, v: eo.linalg.norm(eo.subtract(u, v))",
        "sqeuclidean": "u, v: eo.sum(eo.subtract(u, v) ** 2)",
        "cityblock": "u, v: eo.sum(eo.abs(eo.subtract(u, v)))",
        "chebyshev": "u, v: eo.max(eo.abs(eo.subtract(u, v)))",
        "minkowski": "u, v, p=2: eo.linalg.norm(eo.subtract(u, v), ord=p)",
        "cosine": "u, v: 1 - eo.vecdot(u, v) / (eo.linalg.norm(u) * eo.linalg.norm(v))",
    },
    "scipy.integrate": {
        "cumulative_trapezoid": "y, x=None, dx=1.0: eo.cumsum((y[1:] + y[:-1]) / 2 * (dx if x is None else "
        "eo.diff(x)))  # of vectors",
    },
    "scipy.stats": {
        "zscore": "a, axis=0, ddof=0: (a - eo.mean(a, axis=axis, keepdims=True)) / eo.std(a, axis=axis, "
        "correction=ddof, keepdims=True)",
        "gmean": "a, axis=0: eo.exp(eo.mean(eo.log(a), axis=axis))",
        "hmean": "a, axis=0: 1 / eo.mean(eo.reciprocal(a), axis=axis)",
        "sem": "a, axis=0, ddof=1: eo.std(a, axis=axis, correction=ddof) / a.shape[axis] ** 0.5",
    },
    "scipy.ndimage": {
        "sum": "x: eo.sum(x)",
        "sum_labels": "x: eo.sum(x)",
        "mean": "x: eo.mean(x)",
        "variance": "x: eo.var(x, correction=0)",
        "standard_deviation": "x: eo.std(x, correction=0)",
        "maximum": "x: eo.max(x)",
        "minimum": "x: eo.min(x)",
        "median": "x: eo.median(x)",
    },
    "numpy": {
        "nditer": "x: iter(x.reshape(-1))",
        "ndenumerate": "x: ((i, x[i]) for i in np.ndindex(x.shape))",
        "fill_diagonal": "a, value: 'make {a} a tensor, and write i = np.arange(min({a}.shape)); "
        "{a}[i, i] = {value}'",
    },
}  # fmt: skip
_FILTERS = "eo.conv2d of x[None, None], with eo.pad for the border; it does not flip the weights"
_AXIS = _FILTERS.replace("conv2d", "conv1d")
for _name in ("convolve", "correlate", "gaussian_filter", "uniform_filter", "laplace", "sobel", "prewitt"):
    RULES["scipy.ndimage"][_name] = f"*_, **__: 'use {_FILTERS}'"
for _name in ("convolve1d", "correlate1d", "gaussian_filter1d", "uniform_filter1d"):
    RULES["scipy.ndimage"][_name] = f"*_, **__: 'use {_AXIS}'"

# For what SciPy alone has, by package.
PACKAGES = {
    "optimize": "eo.scipy_compat.minimize or least_squares for an optimum, eo.implicit.custom_root for the "
    "derivative of a solution",
    "stats": "the density written with functions of eo, as -x * x / 2 for a normal one",
    "integrate": "eo.trapezoid or a sum over points, eo.scan for steps in time, eo.custom_vjp around SciPy",
    "interpolate": "eo.interp(x, xp, fp) for straight lines between points, else eo.custom_vjp around it, "
    "whose rule calls its derivative()",
}
# Functions that compute on tensors where SciPy's dispatch is on.
DISPATCHED = {
    "scipy.stats": "entropy kurtosis pearsonr skew ttest_ind zscore zmap",
    "scipy.cluster": "whiten",
    "scipy.signal": "fftconvolve hilbert",
}
_PIECES = (
    "x, *_: 'with i = eo.searchsorted({owner}.x[1:-1], {x}) write eo.vmap(eo.polyval, (1, 0))"
    "(eo.asarray({owner}.c)[:, i], "
    "{x} - eo.asarray({owner}.x)[i])'"
)
# For objects that are called, by their class.
CALLED = {
    "vectorize": "x: eo.vmap(owner.pyfunc)(x)  # of a vector; the function itself may take whole tensors",
    "interp1d": "x: eo.interp(x, owner.x, owner.y)  # where x is inside the points, for kind='linear'",
    **dict.fromkeys(("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "PPoly"), _PIECES),
    "CubicHermiteSpline": _PIECES,
    **dict.fromkeys(
        ("Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"),
        "x: eo.polyval(owner.convert(kind=np.polynomial.Polynomial).coef[::-1], x)",
    ),
}
