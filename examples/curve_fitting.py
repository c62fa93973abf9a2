"""Fitting a curve to real data, with confidence intervals from the Hessian of the likelihood.

How does the width of an iris petal grow with its length? Allometry says by a power law, ``w = a * l**b``,
and b = 1 would mean that petals keep their shape. Maximum likelihood gives the parameters; the inverse of
the Hessian of the negative log-likelihood at its minimum gives their covariance, and with it the error bars.

    python examples/curve_fitting.py
"""

import numpy as np
from scipy import optimize, stats  # pip install -e '.[train]' in EveryO's folder
from sklearn.datasets import load_iris  # pip install -e '.[train]' in EveryO's folder

import everyo as eo


def main() -> dict:
    petals = load_iris().data
    length, width = petals[:, 2], petals[:, 3]

    def model(params):
        return params["scale"] * length ** params["exponent"]

    def negative_log_likelihood(params):
        # The spread is exp(log_spread), so that every real number is allowed.
        spread = eo.exp(params["log_spread"])
        residual = (width - model(params)) / spread
        return (residual**2 / 2 + params["log_spread"]).sum()

    start = {"scale": 0.5, "exponent": 1.0, "log_spread": 0.0}
    objective = eo.scipy_compat.minimize_fun(negative_log_likelihood, start)
    fit = optimize.minimize(
        objective, objective.x0, jac=objective.grad, hessp=objective.hessp, method="trust-ncg"
    )
    covariance = np.linalg.inv(objective.hess(fit.x))
    quantile = stats.norm.ppf(0.975)
    errors = objective.unpack(np.sqrt(np.diag(covariance)))
    best = objective.unpack(fit.x)

    print(f"{len(width)} petals, {fit.nit} steps, |gradient| = {np.abs(fit.jac).max():.1e}")
    intervals = {}
    for name in start:
        value, error = best[name].item(), errors[name].item()
        intervals[name] = (value - quantile * error, value, value + quantile * error)
        low, value, high = intervals[name]
        print(f"{name:>10} = {value:7.4f}   95% interval {low:7.4f} to {high:7.4f}")
    low, _, high = intervals["exponent"]
    print("petals keep their shape" if low < 1 < high else "petals change their shape as they grow")

    # The same curve by least squares, whose covariance comes from the Jacobian alone.
    curve = eo.scipy_compat.least_squares(lambda p: model(p) - width, {"scale": 0.5, "exponent": 1.0})
    spread = (curve.fun**2).sum() / len(width)
    linear = np.sqrt(np.diag(np.linalg.inv(curve.jac.T @ curve.jac) * spread))
    print(f"by least squares: exponent = {curve.params['exponent'].item():.4f} ± {quantile * linear[0]:.4f}")
    return intervals


if __name__ == "__main__":
    main()
