"""EveryO functions for SciPy's solvers: NumPy vectors in and out, derivatives exact.

`minimize` and `least_squares` call SciPy's functions of the same names with everything they can use.
`Objective` and `Residuals` give the pieces: value, gradient, Hessian and products with it, Jacobians dense
and sparse, each computed once for each point.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from everyo.core.dtypes import float64
from everyo.core.tensor import Tensor
from everyo.errors import (
    ArgumentError,
    DTypeError,
    NonFiniteGradientError,
    ShapeError,
    UnsupportedOperationError,
    describe,
    install,
)
from everyo.ops.creation import as_tensor, tensor
from everyo.transforms.bounds import paired, separate
from everyo.transforms.callables import require_function
from everyo.transforms.derivatives import grad, value_and_grad, vjp
from everyo.transforms.jacobians import hessian, jacobian
from everyo.transforms.raveling import Layout, ravel
from everyo.transforms.trees import flatten, tree_map

__all__ = ["Objective", "Residuals", "least_squares", "minimize", "minimize_fun", "residuals_fun"]

Function = Callable[..., Any]
HESSIAN_PRODUCTS = frozenset({"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"})
HESSIANS = frozenset({"dogleg", "trust-exact"})
GRADIENT_FREE = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})


def _vector_or_tree(params: Any) -> Any:
    numbers = type(params) is list and params and all(type(x) in (int, float) for x in params)
    return np.asarray(params, np.float64) if numbers else params


def _as_float64(leaf: Any, operation: str) -> Tensor:
    """Return a leaf of the parameters in double precision, from what it was written as."""
    array = leaf.detach().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
    if array.dtype.kind not in "iuf":
        raise DTypeError(
            "the parameters must be real numbers",
            operation=operation,
            inputs=describe(array),
            expected="float tensors, arrays or numbers",
            found=str(array.dtype),
            remedy="make real and imaginary part parameters of their own",
        )
    return tensor(array, dtype=float64)


class Packed:
    """A function of parameters in any pytree as a function of one float64 vector.

    Parameters
    ----------
    function : callable
        Takes the parameters, then `args`.
    params : pytree of tensors, arrays or numbers
        The structure and shapes of the parameters; their values become `x0`: leaf after leaf, those of a
        dict in the order of its sorted keys. A list of numbers is a vector, as for SciPy.
    args : tuple
        Further arguments, which are constants.

    Attributes
    ----------
    x0 : numpy.ndarray
        `params` packed.
    """

    operation = "scipy_compat"

    def __init__(self, function: Function, params: Any, args: tuple[Any, ...] = ()) -> None:
        require_function(self.operation, function)
        self.function = function
        self.args = args if isinstance(args, tuple) else (args,)  # one alone, as SciPy takes it
        doubles = tree_map(lambda leaf: _as_float64(leaf, self.operation), _vector_or_tree(params))
        self._layout = Layout(doubles)
        self.x0 = self.pack(doubles)
        self._points: dict[str, tuple[Any, Any]] = {}

    def pack(self, params: Any) -> Any:
        """Return parameters as one float64 NumPy vector, leaf after leaf."""
        doubles = tree_map(lambda leaf: _as_float64(leaf, self.operation), _vector_or_tree(params))
        if Layout(doubles) != self._layout:
            raise ShapeError(
                "these parameters differ in structure or shapes",
                operation=self.operation,
                expected=f"{self._layout.structure or 'one tensor'} of shapes {self._layout.shapes}",
                found=f"{Layout(doubles).structure or 'one tensor'} of shapes {Layout(doubles).shapes}",
                remedy="pass parameters like those that the object was made with",
            )
        leaves = flatten(doubles)[0]
        return np.array(ravel(leaves).numpy()) if leaves else np.zeros(0)

    def _require_some(self, operation: str) -> None:
        """Raise ArgumentError if there is nothing to search for."""
        if not self.x0.size:
            raise ArgumentError(
                "there are no parameters",
                operation=operation,
                expected="at least one number to search for",
                found="no elements",
                remedy="pass what is to be found as params, and constants as args",
            )

    def unpack(self, x: Any) -> Any:
        """Return a vector as the tree of parameters, in float64 tensors."""
        return self._layout.unravel(self._vector(x))

    def _vector(self, x: Any) -> Tensor:
        vector = np.asarray(x, np.float64)
        if vector.shape != (self._layout.size,):
            raise ShapeError(
                "the vector does not hold these parameters",
                operation=self.operation,
                expected=f"shape {(self._layout.size,)}",
                found=f"shape {vector.shape}",
                remedy="pass a vector that pack() made, or the solver's x",
            )
        return tensor(vector)

    def _at(self, x: Any, what: str, compute: Callable[[Tensor], Any]) -> Any:
        """Return what `compute` gives at a point, computed once while solvers stay at it."""
        known = self._points.get(what)
        if known is not None and np.array_equal(known[0], x):
            return known[1]
        vector = self._vector(x)
        found = compute(vector)
        self._points[what] = (vector.numpy(), found)
        return found

    def _called(self, vector: Tensor) -> Any:
        """Call the function on what a vector holds; raise where its result has lost the way back."""
        result = self.function(self._layout.unravel(vector), *self.args)
        lost = [leaf for leaf in flatten(result)[0] if not isinstance(leaf, Tensor)]
        if lost or result is None:
            raise DTypeError(
                "the function returned something that is no tensor, through which nothing is differentiated",
                operation=self.operation,
                expected="a tensor" if self.operation == "minimize_fun" else "a tensor, or a tree of tensors",
                found=describe(*lost) or "None",
                remedy="return the loss without float(), item() or numpy(); a constant is eo.tensor(c)",
            )
        return result


class Objective(Packed):
    """A scalar function for `scipy.optimize.minimize`; made by `minimize_fun`.

    Call it for the value; `grad`, `hessp`, `hess` and `sparse_hess` are what SciPy takes as ``jac``,
    ``hessp`` and ``hess``. Value and gradient come from one pass, kept until another point is asked for;
    so does the graph that the products with the Hessian at one point share.
    """

    operation = "minimize_fun"

    def __call__(self, x: Any) -> float:
        """Return the value at a vector."""
        return self._both(x)[0]

    def grad(self, x: Any) -> Any:
        """Return the gradient at a vector, of shape (n,)."""
        return self._both(x)[1].copy()

    def value_and_grad(self, x: Any) -> tuple[float, Any]:
        """Return both, as SciPy takes them with ``jac=True``."""
        value, gradient = self._both(x)
        return value, gradient.copy()

    def hessp(self, x: Any, p: Any) -> Any:
        """Return the product of the Hessian at a vector with `p`: the Hessian is never formed."""
        pullback = self._at(x, "hessp", lambda vector: vjp(grad(self._called), vector)[1])
        return np.array(pullback(self._vector(p))[0].numpy())

    def hess(self, x: Any) -> Any:
        """Return the Hessian at a vector, of shape (n, n)."""
        return self._at(x, "hess", lambda vector: np.array(hessian(self._called)(vector).numpy())).copy()

    def sparse_hess(self, x: Any) -> Any:
        """Return the Hessian as a SciPy sparse array; its pattern is detected at the first call."""
        if not hasattr(self, "_sparse"):
            from everyo.transforms.sparse import sparse_hessian

            self._sparse = sparse_hessian(self._called)
        return self._at(x, "sparse", self._sparse).copy()

    def _both(self, x: Any) -> Any:
        return self._at(x, "value", self._evaluate)

    def _evaluate(self, vector: Tensor) -> tuple[float, Any]:
        value, gradient = value_and_grad(self._called)(vector)
        slope = np.array(gradient.numpy())
        _refuse_nan(slope, np.isfinite(value.item()), self.operation)
        return float(value.item()), slope


class Residuals(Packed):
    """A function with many results for `scipy.optimize.least_squares`; made by `residuals_fun`.

    Call it for the residuals; `jac` and `sparse_jac` are what SciPy takes as ``jac``, and `sparsity` as
    ``jac_sparsity``. It serves as the function of a constraint too.
    """

    operation = "residuals_fun"

    def __call__(self, x: Any) -> Any:
        """Return the residuals at a vector, of shape (m,), in float64."""
        return self._at(x, "value", lambda vector: np.array(self._flat(vector).detach().numpy())).copy()

    def jac(self, x: Any) -> Any:
        """Return the Jacobian at a vector, of shape (m, n)."""
        return self._at(x, "jac", self._jacobian).copy()

    def sparse_jac(self, x: Any) -> Any:
        """Return the Jacobian as a SciPy sparse array; its pattern is detected at the first call."""
        found = self._at(x, "sparse", self._sparse_jacobian())
        _refuse_nan(found.data, bool(np.isfinite(self(x)).all()), self.operation)
        return found.copy()

    def sparsity(self, x: Any = None) -> Any:
        """Return the Jacobian's pattern as a boolean SciPy sparse array, at `x0` by default."""
        return self._sparse_jacobian().sparsity(self._vector(self.x0 if x is None else x))

    def _sparse_jacobian(self) -> Any:
        if not hasattr(self, "_sparse"):
            from everyo.transforms.sparse import sparse_jacobian

            self._sparse = sparse_jacobian(self._flat)
        return self._sparse

    def _jacobian(self, vector: Tensor) -> Any:
        matrix = np.array(jacobian(self._flat)(vector).numpy())
        _refuse_nan(matrix, bool(np.isfinite(self(vector.numpy())).all()), self.operation)
        return matrix

    def _flat(self, vector: Tensor) -> Tensor:
        leaves = [as_tensor(leaf) for leaf in flatten(self._called(vector))[0]]
        if not leaves or any(leaf.dtype.kind not in "iuf" for leaf in leaves):
            raise DTypeError(
                "the residuals must be real numbers",
                operation=self.operation,
                inputs=describe(*leaves),
                expected="a float tensor, or a tree of them",
                found=describe(*leaves) or "nothing",
                remedy="convert them with astype; stack real and imaginary parts of complex ones",
            )
        return ravel(leaves).astype(float64)


def _optimizers(operation: str) -> Any:
    """Return SciPy's optimizers, or say what to install."""
    try:
        from scipy import optimize
    except ModuleNotFoundError as error:
        raise UnsupportedOperationError(
            "the search is SciPy's, which is not installed",
            operation=operation,
            expected="the module scipy.optimize",
            found=str(error),
            remedy=install("scipy"),
        ) from error
    return optimize


def _refuse_nan(derivative: Any, finite: bool, operation: str) -> None:
    """Raise where a derivative is NaN though the value is finite: solvers would stop without a word."""
    wrong = np.argwhere(np.isnan(derivative)) if finite else np.zeros((0, 1))
    if len(wrong):
        raise NonFiniteGradientError(
            f"the derivative is NaN at index {tuple(map(int, wrong[0]))}, although the function is finite",
            operation=operation,
            expected="finite derivatives",
            found=f"{len(wrong)} NaN",
            remedy="run the function and its gradient under eo.detect_anomaly() to find the operation",
        )


def minimize_fun(function: Function, params: Any, args: tuple[Any, ...] = ()) -> Objective:
    """Return a scalar function in the form in which SciPy's minimizers take functions.

    Parameters
    ----------
    function : callable
        ``function(params, *args)`` returns a real scalar tensor.
    params : pytree of tensors, arrays or numbers
        A tree like the one that the function takes. Everything is computed in float64. Vectors hold leaf
        after leaf, those of a dict in the order of its sorted keys.
    args : tuple, optional
        Further arguments, which are constants.

    Returns
    -------
    Objective
        With the methods `grad`, `hessp`, `hess`, `sparse_hess`, `pack` and `unpack`, and `params` packed in
        `x0`.

    Raises
    ------
    ShapeError, DTypeError
        When called, if the function returns no tensor with one real element.
    NonFiniteGradientError
        When called, if the gradient is NaN where the value is finite.

    Examples
    --------
    >>> import everyo as eo
    >>> from scipy import optimize
    >>> loss = lambda p: (p["a"] - 1) ** 2 + (p["b"] ** 4).sum()
    >>> f = eo.scipy_compat.minimize_fun(loss, {"a": 0.0, "b": eo.tensor([2.0, 3.0])})
    >>> f(f.x0), f.grad(f.x0)
    (98.0, array([ -2.,  32., 108.]))
    >>> found = optimize.minimize(f, f.x0, jac=f.grad, hessp=f.hessp, method="trust-ncg")
    >>> round(f.unpack(found.x)["a"].item(), 6)
    1.0
    """
    return Objective(function, params, args)


def residuals_fun(function: Function, params: Any, args: tuple[Any, ...] = ()) -> Residuals:
    """Return a function with many results in the form in which `scipy.optimize.least_squares` takes it.

    Parameters
    ----------
    function : callable
        ``function(params, *args)`` returns a real tensor or a pytree of them.
    params : pytree of tensors, arrays or numbers
        A tree like the one that the function takes; everything is computed in float64.
    args : tuple, optional
        Further arguments, which are constants.

    Returns
    -------
    Residuals
        With the methods `jac`, `sparse_jac`, `sparsity`, `pack` and `unpack`, and `params` packed in `x0`.

    Raises
    ------
    DTypeError, NonFiniteGradientError
        When called, if the results are no real tensors or their derivative is NaN.

    Examples
    --------
    >>> import everyo as eo
    >>> r = eo.scipy_compat.residuals_fun(lambda x: x[1:] - x[:-1] ** 2, eo.tensor([1.0, 2.0, 3.0]))
    >>> r(r.x0)
    array([ 1., -1.])
    >>> print(r.sparse_jac(r.x0).toarray())
    [[-2.  1.  0.]
     [ 0. -4.  1.]]
    """
    return Residuals(function, params, args)


def minimize(
    function: Function, params: Any, args: tuple[Any, ...] = (), method: str | None = None, **options: Any
) -> Any:
    """Minimize a scalar function of a pytree with `scipy.optimize.minimize` and exact derivatives.

    The gradient goes to every method that uses one; products with the Hessian to Newton-CG, trust-ncg,
    trust-krylov and trust-constr, and the Hessian itself to dogleg and trust-exact.

    Parameters
    ----------
    function : callable
        ``function(params, *args)`` returns a real scalar tensor.
    params : pytree of tensors, arrays or numbers
        Where the search starts; a tree like the one that the function takes.
    args : tuple, optional
        Further arguments, which are constants.
    method : str or callable, optional
        One of SciPy's; its default is BFGS, or L-BFGS-B with bounds. A minimizer of your own is called as
        SciPy calls it, and gets gradient, Hessian and products with it: ``jac``, ``hess`` and ``hessp``.
    **options : any
        What else `scipy.optimize.minimize` takes: bounds, constraints, tol, callback, options. A ``jac``
        of True, as for functions that return their gradient too, is the exact one. Bounds may be a tree
        like `params` with a pair for each leaf, ``{"a": (0, 10), "b": (None, 1)}``, or ``Bounds`` of two
        trees; a flat list of pairs is in the order of `x0`: the sorted keys of a dict.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's own, with ``params`` in addition: the minimizer as a tree like `params`, in float64.

    Raises
    ------
    UnsupportedOperationError
        If SciPy is not installed.
    ArgumentError
        If there are no parameters.
    ShapeError
        If trees of bounds do not fit the parameters.

    Examples
    --------
    >>> import everyo as eo
    >>> bowl = lambda x: ((x - eo.arange(3)) ** 2).sum()
    >>> found = eo.scipy_compat.minimize(bowl, eo.ones(3), method="Newton-CG")
    >>> print(eo.round(found.params))
    [0. 1. 2.]
    """
    optimize = _optimizers("minimize")
    objective = minimize_fun(function, params, args)
    objective._require_some("minimize")
    own = callable(method)
    name = "" if own or method is None else str(method).lower()
    if options.get("jac") is True:
        options["jac"] = objective.grad
    if name not in GRADIENT_FREE:
        options.setdefault("jac", objective.grad)
    if "hess" not in options and "hessp" not in options:
        if own or name in HESSIAN_PRODUCTS:
            options["hessp"] = objective.hessp
        if own or name in HESSIANS:
            options["hess"] = objective.hess
    if "bounds" in options:
        options["bounds"] = paired(options["bounds"], objective._layout, "minimize")
    found = optimize.minimize(objective, objective.x0, method=method, **options)
    found.params = objective.unpack(found.x)
    return found


def least_squares(
    function: Function, params: Any, args: tuple[Any, ...] = (), sparse: bool = False, **options: Any
) -> Any:
    """Minimize a sum of squares with `scipy.optimize.least_squares` and exact Jacobians.

    Parameters
    ----------
    function : callable
        ``function(params, *args)`` returns a real tensor or a pytree of them.
    params : pytree of tensors, arrays or numbers
        Where the search starts; a tree like the one that the function takes.
    args : tuple, optional
        Further arguments, which are constants.
    sparse : bool, default False
        Compute the Jacobian as a sparse matrix; the method must be "trf" (the default) or "dogbox".
    **options : any
        What else `scipy.optimize.least_squares` takes: bounds, method, loss, x_scale and so on; `kwargs`
        are further arguments of `function` by name, constants as `args` are. Bounds may
        be two trees like `params`, ``({"a": 0, "b": 0}, {"a": 10, "b": 1})``; flat vectors are in the order
        of `x0`: the sorted keys of a dict.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's own, with ``params`` in addition: the minimizer as a tree like `params`, in float64.

    Raises
    ------
    UnsupportedOperationError
        If SciPy is not installed.
    ArgumentError
        If there are no parameters.
    ShapeError
        If trees of bounds do not fit the parameters.

    Examples
    --------
    >>> import everyo as eo
    >>> t = eo.tensor([0.0, 1.0, 2.0, 3.0], dtype=eo.float64)
    >>> model = lambda p: p["scale"] * eo.exp(-p["rate"] * t)
    >>> data = model({"scale": 3.0, "rate": 0.5})
    >>> found = eo.scipy_compat.least_squares(lambda p: model(p) - data, {"scale": 1.0, "rate": 1.0})
    >>> round(found.params["scale"].item(), 4), round(found.params["rate"].item(), 4)
    (3.0, 0.5)
    """
    optimize = _optimizers("least_squares")
    keywords = options.pop("kwargs", None)  # which SciPy would pass to the packed function
    if keywords:
        require_function(Residuals.operation, function)
        function = functools.partial(function, **keywords)
    residuals = residuals_fun(function, params, args)
    residuals._require_some("least_squares")
    options.setdefault("jac", residuals.sparse_jac if sparse else residuals.jac)
    if "bounds" in options:
        options["bounds"] = separate(options["bounds"], residuals._layout, "least_squares")
    found = optimize.least_squares(residuals, residuals.x0, **options)
    found.params = residuals.unpack(found.x)
    return found
