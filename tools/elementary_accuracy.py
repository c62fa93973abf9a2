"""Print the largest error and the speed of each compiled elementary function, beside NumPy's speed.

python tools/elementary_accuracy.py [--points 1000000] [name ...]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from everyo.compiler import elementary
from tests.elementary_kernels import Kernel, errors_in_ulp
from tests.elementary_reference import exact, samples

SPEED_POINTS = 32_768  # they stay in the cache, and a run is over before the next process gets its turn
DOMAIN = {"acosh": (1.0, 5.0), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atanh": (-0.99, 0.99)}
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh"}
NUMPY |= {"acosh": "arccosh", "atanh": "arctanh"}


def nanoseconds(run: Callable[[], object], elements: int) -> float:
    """Return the best of many runs, for one element."""
    best = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1e9 / elements


def report(name: str, dtype: str, points: int) -> str:
    kernel = Kernel(name, dtype)
    arguments = samples(name, dtype, points, kernel.arity)
    with np.errstate(all="ignore"):
        errors = errors_in_ulp(name, kernel(*arguments), exact(name, *arguments), *arguments)
    worst = int(np.argmax(errors))
    rng = np.random.default_rng(1)
    inputs = [
        rng.uniform(*DOMAIN.get(name, (0.1, 5.0)), SPEED_POINTS).astype(kernel.numpy_type)
        for _ in range(kernel.arity)
    ]
    out = np.empty_like(inputs[0])
    ours = nanoseconds(lambda: kernel.into(out, *inputs), SPEED_POINTS)
    function = getattr(np, NUMPY.get(name, name), None)
    theirs = (
        f"{nanoseconds(lambda: function(*inputs, out=out), SPEED_POINTS):8.2f}" if function else "       -"
    )
    width = max(map(int, re.findall(r"fmul <(\d+) x", kernel.optimized)), default=0)
    place = ", ".join(repr(float(a[worst])) for a in arguments)
    return f"{name:10}{dtype}  {errors[worst]:6.3f}  {ours:8.2f}  {theirs}  {width:5}   {place}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=elementary.names())
    parser.add_argument("--points", type=int, default=1_000_000)
    options = parser.parse_args()
    print("function  type  max ulp  ns/elem  NumPy ns  lanes   where the error is largest")
    for name in options.names:
        for dtype in ("f64", "f32"):
            print(report(name, dtype, options.points), flush=True)


if __name__ == "__main__":
    main()
