"""Logistic regression on a clinical data set, trained to the last digit with Newton-CG.

569 tumours, 30 measurements each: malignant or benign? The loss is convex, so that a second-order method
finds its one minimum in a few steps. Newton-CG asks for products of the Hessian with vectors, which EveryO
computes without ever forming the Hessian.

    python examples/logistic_regression.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer  # pip install -e '.[train]' in EveryO's folder

import everyo as eo


def main() -> dict:
    features, labels = load_breast_cancer(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    train, test = order[:400], order[400:]
    penalty = 1e-2

    def margins(params, rows):
        signs = 2.0 * labels[rows] - 1.0
        return signs * (features[rows] @ params["weights"] + params["bias"])

    def loss(params):
        return eo.softplus(-margins(params, train)).mean() + penalty * (params["weights"] ** 2).sum() / 2

    start = {"weights": np.zeros(features.shape[1]), "bias": 0.0}
    print("method     steps gradients products         loss |gradient| accuracy")
    found = {}
    for method in ("L-BFGS-B", "Newton-CG", "trust-ncg"):
        tight = {"gtol": 1e-9} if method != "Newton-CG" else {"xtol": 1e-10}
        fit = eo.scipy_compat.minimize(loss, start, method=method, options={"maxiter": 500, **tight})
        accuracy = float((margins(fit.params, test).numpy() > 0).mean())
        slope = np.abs(fit.jac).max()
        products = fit.nhev if "nhev" in fit else 0
        counts = f"{fit.nit:5d} {fit.njev:9d} {products:8d}"
        print(f"{method:<10} {counts} {fit.fun:12.9f} {slope:10.1e} {accuracy:8.1%}")
        found[method] = fit
    names = load_breast_cancer().feature_names
    weights = found["Newton-CG"].params["weights"].numpy()
    strongest = np.argsort(-np.abs(weights))[:3]
    print(
        "strongest signs of a malignant tumour:",
        ", ".join(str(names[k]) for k in strongest if weights[k] < 0),
    )
    return found


if __name__ == "__main__":
    main()
