"""The ends of the ranges of dtypes, and the comparison of complex numbers near them."""

import numpy as np

LARGEST = {
    "complex64": 3.4e38,
    "complex128": 1.79e308,
    "float16": 65504,
    "float32": 3.4e38,
    "float64": 1.79e308,
}
LEAST = {"complex64": 1.4e-45, "complex128": 5e-324, "float16": 6e-8, "float32": 1.4e-45, "float64": 5e-324}
TURNS = [1, 1j, -0.7 + 0.7j, 0.6 - 0.8j, 0.95 + 0.95j]


def assert_close(found, exact, dtype, ulps=16):
    """Compare complex numbers to a few units in the last place of their size, if they are in the range."""
    for value, number in zip(np.ravel(found).tolist(), exact, strict=True):
        if max(abs(number.real), abs(number.imag)) < LARGEST[dtype]:
            bound = ulps * max(float(np.finfo(dtype).eps) * abs(number), LEAST[dtype])
            assert abs(value - number) <= bound, (value, number)
