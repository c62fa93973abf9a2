"""EveryO, JAX and PyTorch behind the names that they share, so that a program is written once.

A program is a function ``f(xp, *arguments)``: `xp` holds array functions, everything else is operators,
methods and indexing that all of them understand. The arguments are arrays, or dicts and lists of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..harness import explain
from ..libraries import is_absent

Function = Callable[..., Any]
NAMES = ("everyo", "jax", "torch")


class EveryO:
    """EveryO, compiled."""

    def __init__(self) -> None:
        import everyo as eo

        self._eo = eo
        self.xp = SimpleNamespace(
            exp=eo.exp, log=eo.log, sqrt=eo.sqrt, tanh=eo.tanh, sigmoid=eo.sigmoid, erfc=eo.erfc,
            softplus=eo.softplus, sum=eo.sum, mean=eo.mean, stack=eo.stack, concat=eo.concat, where=eo.where,
            diag=eo.diag, diagonal=eo.diagonal, eye=lambda n: eo.eye(n, dtype=eo.float64),
            zeros=lambda shape: eo.zeros(shape, dtype=eo.float64), scan=eo.scan,
            cholesky=eo.linalg.cholesky,
            solve_lower=lambda l, b: eo.linalg.solve_triangular(l, b, upper=False),
        )  # fmt: skip

    def array(self, array: np.ndarray) -> Any:
        """Return an array of the library."""
        return self._eo.asarray(array)

    def numpy(self, array: Any) -> np.ndarray:
        """Return an array of NumPy."""
        return array.detach().numpy()

    def primal(self, f: Function) -> Function:
        """Return the function as it is called for its value."""
        return self._eo.compile(lambda *arguments: f(self.xp, *arguments))

    def gradient(self, f: Function, wrt: Sequence[int], has_aux: bool) -> Function:
        """Return the function's value (with what comes beside it) and gradients."""
        return self._eo.compile(
            self._eo.value_and_grad(
                lambda *arguments: f(self.xp, *arguments), argnums=tuple(wrt), has_aux=has_aux
            )
        )

    def wait(self, results: Any) -> Any:
        """Return results once they are there."""
        return results


class JAX:
    """JAX in float64, compiled by ``jax.jit``."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp
        from jax.scipy.linalg import solve_triangular
        from jax.scipy.special import erfc

        jax.config.update("jax_enable_x64", True)
        self._jax, self._jnp = jax, jnp
        self.xp = SimpleNamespace(
            exp=jnp.exp, log=jnp.log, sqrt=jnp.sqrt, tanh=jnp.tanh, sigmoid=jax.nn.sigmoid, erfc=erfc,
            softplus=jax.nn.softplus, sum=jnp.sum, mean=jnp.mean, stack=jnp.stack, concat=jnp.concatenate,
            where=jnp.where, diag=jnp.diag, diagonal=jnp.diagonal, eye=jnp.eye, zeros=jnp.zeros,
            scan=jax.lax.scan, cholesky=jnp.linalg.cholesky,
            solve_lower=lambda l, b: solve_triangular(l, b, lower=True),
        )  # fmt: skip

    def array(self, array: np.ndarray) -> Any:
        """Return an array of the library."""
        return self._jnp.asarray(array)

    def numpy(self, array: Any) -> np.ndarray:
        """Return an array of NumPy."""
        return np.asarray(array)

    def primal(self, f: Function) -> Function:
        """Return the function as it is called for its value."""
        return self._jax.jit(lambda *arguments: f(self.xp, *arguments))

    def gradient(self, f: Function, wrt: Sequence[int], has_aux: bool) -> Function:
        """Return the function's value (with what comes beside it) and gradients."""
        return self._jax.jit(
            self._jax.value_and_grad(
                lambda *arguments: f(self.xp, *arguments), argnums=tuple(wrt), has_aux=has_aux
            )
        )

    def wait(self, results: Any) -> Any:
        """Return results once they are there."""
        return self._jax.block_until_ready(results)


class PyTorch:
    """PyTorch, eager."""

    def __init__(self, threads: int) -> None:
        import optree
        import torch

        torch.set_num_threads(threads)
        self._torch, self._optree = torch, optree

        def scan(step: Function, carry: Any, xs: Any = None, length: int | None = None) -> tuple[Any, Any]:
            count = length if xs is None else len(optree.tree_leaves(xs)[0])
            ys = []
            for i in range(count):
                x = None if xs is None else optree.tree_map(lambda a, i=i: a[i], xs)
                carry, y = step(carry, x)
                ys.append(y)
            return carry, None if ys[0] is None else torch.stack(ys)

        self.xp = SimpleNamespace(
            exp=torch.exp, log=torch.log, sqrt=torch.sqrt, tanh=torch.tanh, sigmoid=torch.sigmoid,
            erfc=torch.erfc, softplus=torch.nn.functional.softplus, sum=torch.sum, mean=torch.mean,
            stack=lambda arrays, axis=0: torch.stack(arrays, axis), concat=torch.concat, where=torch.where,
            diag=torch.diag, diagonal=torch.diagonal,
            eye=lambda n: torch.eye(n, dtype=torch.float64),
            zeros=lambda shape: torch.zeros(shape, dtype=torch.float64), scan=scan,
            cholesky=torch.linalg.cholesky,
            solve_lower=lambda l, b: torch.linalg.solve_triangular(l, b, upper=False),
        )  # fmt: skip

    def array(self, array: np.ndarray) -> Any:
        """Return an array of the library."""
        return self._torch.tensor(array)

    def numpy(self, array: Any) -> np.ndarray:
        """Return an array of NumPy."""
        return array.detach().numpy()

    def primal(self, f: Function) -> Function:
        """Return the function as it is called for its value."""

        def run(*arguments: Any) -> Any:
            with self._torch.no_grad():
                return f(self.xp, *arguments)

        return run

    def gradient(self, f: Function, wrt: Sequence[int], has_aux: bool) -> Function:
        """Return the function's value (with what comes beside it) and gradients."""
        optree = self._optree

        def run(*arguments: Any) -> Any:
            given = list(arguments)
            for i in wrt:
                given[i] = optree.tree_map(lambda x: x.detach().requires_grad_(), given[i])
            leaves, structure = optree.tree_flatten([given[i] for i in wrt])
            result = f(self.xp, *given)
            value = result[0] if has_aux else result
            gradients = optree.tree_unflatten(structure, self._torch.autograd.grad(value, leaves))
            return result, tuple(gradients)

        return run

    def wait(self, results: Any) -> Any:
        """Return results once they are there."""
        return results


Library = EveryO | JAX | PyTorch


def single_thread() -> None:
    """Hold JAX, which has no setting for it, to one thread by holding this process to one core."""
    os.environ["EVERYO_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def load_one(name: str, threads: int = 1) -> Library:
    """Import a library; with one thread, before anything else has imported it."""
    os.environ["EVERYO_CACHE"] = "0"  # a first call is to compile
    if threads == 1:
        single_thread()
    if name == "torch":
        return PyTorch(threads)
    return {"everyo": EveryO, "jax": JAX}[name]()


def load(threads: int, names: Sequence[str] = NAMES) -> tuple[dict[str, Library], dict[str, str]]:
    """Import libraries; return those that could be, and why the others could not."""
    adapters, failures = {}, {}
    for name in names:
        if is_absent(name):
            failures[name] = "absent"
            continue
        try:
            adapters[name] = load_one(name, threads)
        except Exception as error:  # a broken library must not stop the others
            failures[name] = explain(error)
    return adapters, failures
