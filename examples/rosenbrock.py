"""The Rosenbrock function in 100 dimensions: what better derivatives save.

A long curved valley with its floor nearly flat: the classic test of optimizers. Every solver here gets
the derivatives it can use: gradients, products with the Hessian, the Hessian itself as a sparse matrix from
3 directions instead of 100, or the sparse Jacobian of the 198 residuals.

    python examples/rosenbrock.py
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices of 100 rows only lose by threads

import numpy as np
from scipy import optimize  # pip install -e '.[scipy]' in EveryO's folder

import everyo as eo

DIMENSIONS = 100


def residuals(x):
    return eo.concat([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])


def rosenbrock(x):
    return (residuals(x) ** 2).sum()


def main() -> dict:
    start = np.zeros(DIMENSIONS)
    found = {}
    print(f"{'method':<28} {'steps':>6} {'values':>7} {'error':>9} {'seconds':>8}")
    clock = time.perf_counter()

    def report(name, result, steps):
        nonlocal clock
        found[name] = np.abs(result.x - 1).max()
        seconds, clock = time.perf_counter() - clock, time.perf_counter()
        print(f"{name:<28} {steps:6d} {result.nfev:7d} {found[name]:9.1e} {seconds:8.2f}")

    for method in ("BFGS", "L-BFGS-B", "Newton-CG", "trust-ncg"):
        tight = {"ftol": 1e-15} if method == "L-BFGS-B" else {}
        result = eo.scipy_compat.minimize(
            rosenbrock, start, method=method, tol=1e-10, options={"maxiter": 5000, **tight}
        )
        report(method, result, result.nit)

    objective = eo.scipy_compat.minimize_fun(rosenbrock, start)
    result = optimize.minimize(
        objective, start, jac=objective.grad, hess=lambda x: objective.sparse_hess(x).toarray(),
        method="trust-exact", tol=1e-10,
    )  # fmt: skip
    report("trust-exact, sparse Hessian", result, result.nit)

    fit = eo.scipy_compat.least_squares(residuals, start, sparse=True, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    report("least squares, sparse J", fit, fit.njev)

    hessian = eo.sparse_hessian(rosenbrock)
    matrix = hessian(eo.tensor(start))
    print(f"Hessian: {matrix.nnz} of {DIMENSIONS**2} entries, computed from {hessian.count} directions")
    return found


if __name__ == "__main__":
    main()
