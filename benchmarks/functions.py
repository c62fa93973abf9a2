"""Functions of a million elements against NumPy's and SciPy's: ``python -m benchmarks.functions``.

Two lines for each function: the call without gradient against the same call of NumPy or SciPy, and the call
with its backward pass against the call alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .harness import SEED, SUBJECT, Budget, Measurement, Row, Settings, explain, interleave
from .runner import main

SIZE = 1_000_000
ROUNDS = 9  # with 3, rows beside their budget changed sides from run to run
FORWARD_LIMIT = 1.5
DERIVATIVE_LIMIT = 5.0  # forward and backward: the call and four more


@dataclass(frozen=True)
class Function:
    """One function, the same in both libraries.

    Attributes
    ----------
    name : str
        Where it stands, as in "linalg.inv" or "special.erf"; what follows a blank tells variants apart.
    inputs : tuple of ndarray
        Its operands; gradients are taken for all of a float dtype.
    arguments : dict
        What both libraries get besides.
    reference : callable, optional
        Instead of the function of that name in NumPy, or in ``scipy.special``; None: there is none.
    ours : callable, optional
        Instead of EveryO's function of that name.
    smooth : bool
        Whether there is a derivative.
    """

    name: str
    inputs: tuple[Any, ...]
    arguments: dict[str, Any]
    reference: Callable[..., Any] | None = None
    ours: Callable[..., Any] | None = None
    smooth: bool = True

    def peer(self) -> Callable[..., Any] | None:
        """Return NumPy's or SciPy's function."""
        if self.reference is not None or self.ours is not None:
            return self.reference
        path, name = _path(self.name)
        if path == "special":
            import scipy.special

            return getattr(scipy.special, name, None)
        home: Any = getattr(np, path) if path else np
        return getattr(home, name, None)

    def subject(self) -> Callable[..., Any]:
        """Return EveryO's function."""
        import everyo

        if self.ours is not None:
            return self.ours
        path, name = _path(self.name)
        return getattr(getattr(everyo, path) if path else everyo, name)


def _path(name: str) -> tuple[str, str]:
    path, _, last = name.split(" ")[0].rpartition(".")
    return path, last


class Data:
    """Random operands of a size."""

    def __init__(self, size: int) -> None:
        draw = np.random.default_rng(SEED)
        side = round(size**0.5)
        self.x = draw.normal(size=size)
        self.y = draw.normal(size=size)
        self.part = draw.uniform(0.05, 0.95, size)
        self.positive = draw.uniform(0.5, 2.0, size)
        self.above = 1 + self.positive
        self.table = draw.normal(size=(side, side))
        self.near_one = draw.uniform(0.9, 1.1, (side, side))
        self.holes = np.where(draw.random((side, side)) < 0.1, np.nan, self.table)
        self.z = self.x + 1j * self.y
        self.small = draw.normal(size=(side // 4, side // 4))
        self.definite = self.small @ self.small.T / len(self.small) + np.eye(len(self.small))
        self.tall = draw.normal(size=(side // 2, side // 10))
        self.places = draw.integers(0, max(size // 1000, 1), size)
        self.points = draw.normal(size=(side, 3)), draw.normal(size=(side, 3))
        self.wide_points = draw.normal(size=(side, 64)), draw.normal(size=(side, 64))


def _each(names: str, *inputs: np.ndarray, smooth: bool = True, **arguments: Any) -> list[Function]:
    return [Function(name, inputs, arguments, smooth=smooth) for name in names.split()]


def elementwise(d: Data) -> list[Function]:
    """Functions of single elements."""
    return [
        *_each("sin cos tan exp expm1 sinh cosh tanh arcsinh arctan square negative abs exp2 sinc", d.x),
        *_each("log log2 log10 log1p sqrt cbrt reciprocal", d.positive),
        *_each("arcsin arccos arctanh", d.part),
        *_each("arccosh", d.above),
        *_each("floor ceil trunc round sign isnan isfinite signbit rint", d.x, smooth=False),
        *_each(
            "add subtract multiply divide maximum minimum arctan2 hypot logaddexp copysign", d.x, d.positive
        ),
        *_each("power", d.positive, d.y),
        *_each("fmod remainder floor_divide", d.x, d.positive),
        *_each("fmax fmin logaddexp2 heaviside", d.x, d.y),
        *_each("float_power", d.positive, d.y),
        *_each("deg2rad rad2deg fabs positive i0 modf", d.x),
        *_each("iscomplex isreal isinf isposinf isneginf logical_not fix", d.x, smooth=False),
        *_each("isclose nextafter not_equal less_equal greater_equal", d.x, d.y, smooth=False),
        *_each("logical_and logical_or logical_xor divmod array_equal array_equiv", d.x, d.y, smooth=False),
        *_each("allclose", d.x, d.x, smooth=False),
        *_each("bitwise_and bitwise_or bitwise_xor gcd lcm", d.places, d.places, smooth=False),
        *_each("bitwise_invert bitwise_count", d.places, smooth=False),
        *_each("left_shift right_shift", d.places, d.places % 8, smooth=False),
        *_each("ldexp", d.x, d.places % 8),
        *_each("frexp", d.x, smooth=False),
        *_each("equal less greater", d.x, d.y, smooth=False),
        *_each("nan_to_num", d.x),
        *_each("clip", d.x, min=-1.0, max=1.0),
        *_each("real imag conj angle", d.z),
    ]


def special(d: Data) -> list[Function]:
    """Special functions, against SciPy's."""
    names = "erf erfc erfcx ndtr log_ndtr expit i0 i1 i0e i1e j0 j1 softmax"
    return [
        *_each(" ".join(f"special.{name}" for name in names.split()), d.x),
        *_each("special.gammaln special.digamma special.entr special.y0", d.positive),
        *_each("special.erfinv special.ndtri special.logit", d.part),
        *_each("special.xlogy special.beta special.betaln special.gammainc", d.positive, d.above),
        *_each("special.betainc", d.above, d.positive, d.part),
        *_each("special.logsumexp special.log_softmax special.y1 special.sinc", d.x),
        *_each("special.kl_div special.rel_entr special.xlog1py special.gammaincc", d.positive, d.above),
        *_each("special.erfcinv", d.part),
        *_each("special.gamma special.psi", d.positive),
        *_each("special.zeta", d.above, d.positive),
    ]


def reductions(d: Data) -> list[Function]:
    """Reductions and running reductions, of all elements and along axes."""
    return [
        *_each("sum mean max min var std ptp", d.x),
        *_each("prod", d.positive ** (1 / 1000)),
        *(replace(f, name=f"{f.name} axis=0") for f in _each("sum mean max min var std", d.table, axis=0)),
        *(replace(f, name=f"{f.name} axis=1") for f in _each("sum mean max min var std", d.table, axis=1)),
        *_each("prod", d.near_one, axis=1),
        *_each("any all count_nonzero argmax argmin", d.x, smooth=False),
        *_each("cumsum", d.x),
        *_each("cumprod", d.near_one, axis=1),
        Function("cumulative_max", (d.x,), {}, np.maximum.accumulate, smooth=True),
        Function("cumulative_max ties", (np.floor(np.arange(d.x.size) / 3),), {}, np.maximum.accumulate),
        Function("logcumsumexp", (d.x,), {}, np.logaddexp.accumulate),
        *_each("diff gradient trapezoid", d.x),
        Function("var mean=", (d.x,), {"mean": d.x.mean(keepdims=True)}),
    ]


def assembled(d: Data) -> list[Function]:
    """Tensors put together, taken apart and padded, and sets."""
    places, half = d.places[::1000].copy(), len(d.table) // 2
    nested = {
        1: lambda lib, *v: lib.block([[v[0]], [v[1]]]),
        2: lambda lib, *v: lib.block([[*v], [*v[::-1]]]),
    }

    def both(name: str, *inputs: np.ndarray, call: Callable[..., Any], smooth: bool = True) -> Function:
        return Function(name, inputs, {}, partial(call, np), partial(call, _eo()), smooth)

    def padded(mode: str) -> list[Function]:
        return [
            Function(f"pad {mode} {x.ndim}", (x,), {"pad_width": 5, "mode": mode}) for x in (d.x, d.table)
        ]

    modes = "constant edge reflect symmetric wrap linear_ramp maximum mean"
    kinds = {"one": 5, "many": places, "slice": slice(0, None, 2)}
    return [
        *(f for mode in modes.split() for f in padded(mode)),
        *(both(f"insert {k}", d.x, call=lambda lib, x, o=o: lib.insert(x, o, 1.0)) for k, o in kinds.items()),
        *(both(f"delete {k}", d.x, call=lambda lib, x, o=o: lib.delete(x, o)) for k, o in kinds.items()),
        both("delete mask", d.x, call=lambda lib, x: lib.delete(x, d.x > 0)),
        *_each("trim_zeros", np.pad(d.x, 100)),
        *_each("append", d.x, d.y),
        both("column_stack", d.x, d.y, call=lambda lib, *v: lib.column_stack(v)),
        both("vstack", d.table, d.table, call=lambda lib, *v: lib.vstack(v)),
        both("hstack", d.table, d.table, call=lambda lib, *v: lib.hstack(v)),
        both("dstack", d.table, d.table, call=lambda lib, *v: lib.dstack(v)),
        both("block rows", d.table[:half], d.table[half:], call=nested[1]),
        both("block square", d.table[:, :half], d.table[:, half:], call=nested[2]),
        both("repeat", d.x, call=lambda lib, x: lib.repeat(x, 3)),
        both("repeat axis=0", d.table, call=lambda lib, x: lib.repeat(x, 2, axis=0)),
        both("repeat counts", d.x, call=lambda lib, x: lib.repeat(x, d.places % 4)),
        both("tile", d.x, call=lambda lib, x: lib.tile(x, 2)),
        both("resize", d.x, call=lambda lib, x: lib.resize(x, (2 * len(d.table) + 1, len(d.table)))),
        both("tri", d.x[:1], call=lambda lib, x: lib.tri(len(d.table), dtype="float64"), smooth=False),
        *_each("tril triu", d.table),
        *_each("ediff1d nancumsum unwrap", d.x),
        both("compress", d.x, call=lambda lib, x: lib.compress(d.x > 0, x)),
        both("extract", d.x, call=lambda lib, x: lib.extract(d.x > 0, x)),
        both("select", d.x, d.y, call=lambda lib, *v: lib.select([d.x > 1, d.x > 0], v)),
        *_each("flatnonzero argwhere histogram_bin_edges nanargmax nanargmin", d.x, smooth=False),
        *_each("nonzero unique_counts unique_inverse unique_all", d.x, smooth=False),
        *_each("unique_values", d.x),
        *_each("union1d intersect1d setdiff1d isin", d.places, places, smooth=False),
        *_each("digitize", d.part, np.linspace(0, 1, 100), smooth=False),
        Function("nanmedian", (d.holes,), {}),
        both("percentile", d.x, call=lambda lib, x: lib.percentile(x, 30)),
        both("partition", d.x, call=lambda lib, x: lib.partition(x, d.x.size // 2)),
        *_each("polyval", d.x[:9], d.part),
        *_each("dot vdot vecdot", d.x, d.y),
        *_each("vander", d.x[: len(d.table)]),
    ]


def statistics(d: Data) -> list[Function]:
    """Statistics, also of what is not NaN, sorting and searching."""
    levels = np.linspace(0.1, 0.9, 9)
    nans = _each("nansum nanmean nanvar nanstd nanmax nanmin nanprod", d.holes)
    return [
        *nans,
        *(replace(f, name=f"{f.name} axis=1", arguments={"axis": 1}) for f in nans),
        *_each("median", d.x),
        Function("quantile", (d.x,), {}, partial(np.quantile, q=0.3), lambda x: _eo().quantile(x, 0.3)),
        Function(
            "quantile 9", (d.x,), {}, partial(np.quantile, q=levels), lambda x: _eo().quantile(x, levels)
        ),
        *_each("cov corrcoef", d.table),
        Function("average weights", (d.x,), {"weights": d.positive}),
        *_each("sort", d.x),
        *_each("argsort", d.x, smooth=False, stable=True),  # EveryO's default, and the standard's
        *_each("unique", d.x, smooth=False),
        *_each("histogram", d.x, smooth=False),
        *_each("bincount", d.places, smooth=False),
        Function("searchsorted", (d.x[::1000].copy(), d.x), {}, smooth=False),
        Function("interp", (d.part, np.linspace(0, 1, 1000), d.x[:1000]), {}),
    ]


def _eo() -> Any:
    import everyo

    return everyo


def arrays(d: Data) -> list[Function]:
    """Gathering, scattering, filters and distances."""
    eo, places, count = _eo(), d.places, int(d.places.max()) + 1

    def at(ufunc: Any, start: float) -> Callable[[np.ndarray], np.ndarray]:
        def reduced(x: np.ndarray) -> np.ndarray:
            out = np.full(count, start)
            ufunc.at(out, places, x)
            return out

        return reduced

    def windows(reduce: str) -> Callable[[Any], Any]:
        return lambda x: eo.reduce_window(x, reduce, (3, 3))

    def segments(name: str) -> Callable[[Any], Any]:
        return lambda x: getattr(eo, name)(x, places, count)

    def joined(library: Any) -> Callable[..., Any]:
        return lambda *v: library.concatenate(v, dtype="float64")

    def in_order(p: float) -> list[Callable[..., Any]]:
        return [partial(_scipy_cdist, metric="minkowski", p=p), partial(eo.cdist, p=p)]

    return [
        Function("segment_sum", (d.x,), {}, at(np.add, 0.0), segments("segment_sum")),
        Function("segment_max", (d.x,), {}, at(np.maximum, -np.inf), segments("segment_max")),
        Function("segment_prod", (d.positive,), {}, at(np.multiply, 1.0), segments("segment_prod")),
        Function("x[places]", (d.x,), {}, lambda x: x[places], lambda x: x[places]),
        Function("where", (d.x, d.y), {}, partial(np.where, d.x > 0), partial(eo.where, d.x > 0)),
        Function("take", (d.x, places), {}),
        *(Function(f"take {mode}", (d.x, places), {"mode": mode}) for mode in ("wrap", "clip")),
        Function("take_along_axis", (d.table, d.table.argsort(1)), {"axis": 1}),
        *(
            Function(f"reduce_window {r}", (d.near_one,), {}, None, windows(r))
            for r in ("sum", "max", "prod")
        ),
        *_each("roll", d.x, shift=3),
        *_each("flip ravel", d.table),
        Function("concatenate", (d.x, d.y), {}, lambda *v: np.concatenate(v), lambda *v: eo.concatenate(v)),
        Function("concatenate dtype", (d.places, d.places), {}, joined(np), joined(eo), smooth=False),
        Function("stack", (d.x, d.y), {}, lambda *v: np.stack(v), lambda *v: eo.stack(v)),
        Function("convolve 31", (d.x, d.y[:31]), {}),
        Function("convolve 5", (d.x, d.y[:5]), {}),
        Function("cdist 3", d.points, {}, _scipy_cdist, eo.cdist),
        Function("cdist 64", d.wide_points, {}, _scipy_cdist, eo.cdist),
        *(Function(f"cdist p={p}", d.points, {}, *in_order(p)) for p in (1, np.inf, 3)),
    ]


def views(d: Data) -> list[Function]:
    """Views, whose time does not depend on the size; a backward pass has all elements to write."""
    side, column = len(d.table), d.x[:, None]
    return [
        *_each("matrix_transpose fliplr flipud rot90 diagonal atleast_2d", d.table, smooth=False),
        Function("reshape", (d.table, (-1,)), {}, smooth=False),
        Function("reshape 3", (d.table, (2, side // 2, side)), {}, smooth=False),
        Function("squeeze", (column,), {}, smooth=False),
        Function("squeeze axis", (column, 1), {}, smooth=False),
        Function("expand_dims", (d.x, 0), {}, smooth=False),
        Function("permute_dims", (d.table, (1, 0)), {}, smooth=False),
        Function("transpose", (d.table,), {}, smooth=False),
        Function("swapaxes", (d.table, 0, 1), {}, smooth=False),
        Function("moveaxis", (d.table, 0, 1), {}, smooth=False),
        Function("broadcast_to", (d.table, (2, side, side)), {}, smooth=False),
        Function("flip axis", (d.table, 0), {}, smooth=False),
    ]


def _scipy_cdist(x1: np.ndarray, x2: np.ndarray, metric: str = "euclidean", **options: float) -> np.ndarray:
    from scipy.spatial.distance import cdist

    return cdist(x1, x2, metric, **options)


def linear_algebra(d: Data) -> list[Function]:
    """Products, decompositions and solutions of matrices of 250 rows, and Fourier transforms."""
    names = "inv det pinv"
    return [
        *_each("matmul", d.table, d.table),
        *_each("outer", d.table[0], d.table[1]),
        *_each("trace", d.table),
        *_each("kron", d.table[:31, :31], d.table[:31, :31]),
        *_each("linalg.vector_norm", d.x),
        *_each("linalg.matrix_norm", d.table),
        *_each(" ".join(f"linalg.{name}" for name in names.split()), d.definite),
        *_each("linalg.slogdet linalg.eigh linalg.eigvalsh linalg.svdvals linalg.cholesky", d.definite),
        Function("linalg.svd", (d.tall,), {"full_matrices": False}),
        *_each("linalg.qr", d.tall),
        *_each("linalg.solve", d.definite, d.small),
        *_each("fft.fft fft.ifft", d.z),
        *_each("fft.rfft", d.x),
        *_each("fft.fft2", d.table),
    ]


def _measured(function: Function, settings: Settings) -> list[Measurement]:
    """Measure one function, without and with its derivative."""
    try:
        return [_forward(function, settings), *_derivative(function, settings)]
    except Exception as error:  # whatever it is, the table reports it
        return [Measurement(function.name, "s", failures={SUBJECT: explain(error)})]


def _forward(function: Function, settings: Settings) -> Measurement:
    import everyo as eo

    ours, peer = function.subject(), function.peer()
    tensors = [eo.asarray(x) if isinstance(x, np.ndarray) else x for x in function.inputs]
    runs = {SUBJECT: lambda: ours(*tensors, **function.arguments)}
    if peer is not None:
        runs["numpy"] = lambda: peer(*function.inputs, **function.arguments)
    found = Measurement(
        function.name, "s", _shapes(function), budgets=[Budget(FORWARD_LIMIT, "numpy")] if peer else []
    )
    found.samples, found.calls = interleave(runs, settings)
    return found


def _derivative(function: Function, settings: Settings) -> list[Measurement]:
    import everyo as eo

    if not function.smooth:
        return []
    ours = function.subject()
    plain = [eo.asarray(x) for x in function.inputs]
    tracked = [eo.tensor(x, requires_grad=x.dtype.kind in "fc") for x in function.inputs]
    cotangents = [eo.ones_like(out.detach()) for out in _floats(ours(*tracked, **function.arguments))]

    def both() -> None:
        for tensor in tracked:
            tensor.grad = None
        outs = _floats(ours(*tracked, **function.arguments))
        for i, (out, cotangent) in enumerate(zip(outs, cotangents, strict=True)):
            out.backward(cotangent, retain_graph=i + 1 < len(outs))

    runs = {SUBJECT: both, "forward": lambda: ours(*plain, **function.arguments)}
    found = Measurement(
        f"{function.name}, with backward",
        "s",
        _shapes(function),
        budgets=[Budget(DERIVATIVE_LIMIT, "forward")],
    )
    found.samples, found.calls = interleave(runs, settings)
    return [found]


def _floats(results: Any) -> list[Any]:
    """Return those of one or several results that have a derivative."""
    many = results if isinstance(results, (tuple, list)) else [results]
    return [out for out in many if out.requires_grad]


def _shapes(function: Function) -> str:
    return ", ".join(f"{x.dtype} {x.shape}" for x in function.inputs if isinstance(x, np.ndarray))


def measure(functions: Callable[[Data], Sequence[Function]], settings: Settings) -> list[Measurement]:
    """Measure all functions of a family; the verdicts name those over the bar."""
    data = Data(10_000 if settings.quick else SIZE)
    brief = replace(settings, rounds=min(settings.rounds, ROUNDS), batch_seconds=0.01)
    with np.errstate(all="ignore"):
        return [found for function in functions(data) for found in _measured(function, brief)]


FAMILIES = (elementwise, special, reductions, statistics, assembled, arrays, views, linear_algebra)
ROWS = [
    Row(family.__name__, f"Functions: {family.__name__}", partial(measure, family)) for family in FAMILIES
]

if __name__ == "__main__":
    sys.exit(main("benchmarks.functions", "Functions against NumPy and SciPy", ROWS))
