"""The sizes that are measured, and what hand-written C++ takes for them on one thread.

The C++ is GradBench's "manual" tool (g++ 12, -O3 -march=native) on a machine with AVX2; its derivatives of
`ode` and `kmeans` are closed forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import inputs

PRIMAL = {"gmm": "objective", "kmeans": "cost", "lstm": "objective", "ba": "objective", "ht": "objective"}
DERIVATIVE = {"gmm": "jacobian", "kmeans": "dir", "lstm": "jacobian", "ba": "jacobian", "ht": "jacobian"}


@dataclass(frozen=True)
class Case:
    """One size of a problem.

    Attributes
    ----------
    module, size : str
        The problem, and its size in words.
    make : callable
        Returns the input, as a message has it but with NumPy arrays.
    manual : pair of float
        Seconds that hand-written C++ takes for the function and for its derivative.
    """

    module: str
    size: str
    make: Callable[[], Any]
    manual: tuple[float, float]

    @property
    def names(self) -> tuple[str, str]:
        """The names of the function and of its derivative."""
        return PRIMAL.get(self.module, "primal"), DERIVATIVE.get(self.module, "gradient")


def cases(data: Path | None = None) -> list[Case]:
    """Return all cases; `data` is the folder ``evals`` of GradBench's repository, where there is a copy."""
    return [
        *(
            Case("gmm", f"d={d}, k={k}, n=1000", partial(inputs.gmm, d, k, 1000), manual)
            for d, k, manual in _GMM
        ),
        *(Case("lse", f"n={n}", partial(inputs.lse, n), manual) for n, manual in _LSE),
        *(Case("llsq", f"n={n}, m=128", partial(inputs.llsq, n), manual) for n, manual in _LLSQ),
        *(Case("ode", f"n={n}, s={s}", partial(inputs.ode, n, s), manual) for n, s, manual in _ODE),
        *(
            Case("kmeans", f"k={k}, n={n}, d={d}", partial(inputs.kmeans, k, n, d), manual)
            for k, n, d, manual in _KMEANS
        ),
        *(Case("lstm", f"l={l}, c={c}, b=14", partial(_lstm, l, c, data), manual) for l, c, manual in _LSTM),
        *(
            Case("ba", f"n={n}, m={m}, p={p}", partial(_ba, name, n, m, p, data), manual)
            for name, n, m, p, manual in _BA
        ),
        *(
            Case("ht", f"{kind}, {points} points", partial(_ht, kind, name, points, data), manual)
            for kind, name, points, manual in _HT
        ),
    ]


def _lstm(l: int, c: int, data: Path | None) -> dict[str, Any]:
    path = data and data / "lstm" / "data" / "lstm_full.txt"
    text = path.read_text(encoding="utf-8")[:c] if path and path.exists() else None
    return inputs.lstm(l, c, text=text)


def _ba(name: str, n: int, m: int, p: int, data: Path | None) -> dict[str, Any]:
    return inputs.read_ba(data / "ba" / "data" / name) if data else inputs.ba(n, m, p)


def _ht(kind: str, name: str, points: int, data: Path | None) -> dict[str, Any]:
    triangles = kind == "complicated"
    if data is None:
        return inputs.ht(points, triangles)
    return inputs.read_ht(data / "ht" / "data" / f"{kind}_small", name, triangles)


_GMM = [
    (2, 5, (1.29e-4, 2.71e-4)), (10, 5, (6.59e-4, 1.35e-3)), (10, 25, (3.18e-3, 6.49e-3)),
    (20, 50, (1.27e-2, 3.58e-2)), (32, 100, (4.25e-2, 0.165)), (64, 25, (3.10e-2, 0.148)),
]  # fmt: skip
_LSE = [(2500, (2.71e-5, 2.21e-5)), (40000, (4.51e-4, 3.64e-4)), (1280000, (1.43e-2, 1.31e-2))]
_LLSQ = [(16, (3.54e-6, 7.39e-6)), (512, (1.13e-4, 2.36e-4)), (16392, (3.65e-3, 7.66e-3))]
_ODE = [  # the derivative in C++ is the closed form, for which there is no time
    (1000, 1, (5.28e-6, float("nan"))),
    (10000, 10, (5.38e-4, float("nan"))),
    (100000, 100, (6.29e-2, float("nan"))),
]
_KMEANS = [
    (10, 1000, 8, (5.57e-5, 5.73e-5)),
    (100, 10000, 8, (4.92e-3, 4.96e-3)),
    (1000, 10000, 16, (8.65e-2, 9.44e-2)),
]
_LSTM = [(2, 1024, (3.95e-3, 1.90e-2)), (4, 4096, (3.10e-2, 0.246))]
_BA = [
    ("ba1_n49_m7776_p31843.txt", 49, 7776, 31843, (1.65e-3, 9.55e-3)),
    ("ba4_n372_m47423_p204472.txt", 372, 47423, 204472, (1.08e-2, 8.71e-2)),
]
_HT = [
    ("simple", "hand1_t26_c100.txt", 100, (1.85e-4, 7.73e-4)),
    ("complicated", "hand1_t26_c100.txt", 100, (1.84e-4, 8.70e-4)),
    ("simple", "hand5_t26_c800.txt", 800, (1.96e-4, 1.16e-3)),
    ("complicated", "hand5_t26_c800.txt", 800, (2.03e-4, 1.74e-3)),
]
