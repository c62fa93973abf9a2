"""Function transformations of each library under the names that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import numpy as np

from .harness import Case
from .libraries import Autograd, Tape

Build = Callable[..., Callable[[], object]]


def _everyo() -> SimpleNamespace:
    import everyo as eo

    return SimpleNamespace(
        grad=eo.grad,
        hessian=eo.hessian,
        jacfwd=eo.jacfwd,
        jacrev=eo.jacrev,
        vmap=eo.vmap,
        vjp=eo.vjp,
        jvp=lambda f, x, v: eo.jvp(f, (x,), (v,)),
        hvp=eo.hvp,
        stack=eo.stack,
        units=lambda x: list(eo.eye(x.size, dtype=x.dtype)),
    )


def _torch() -> SimpleNamespace:
    import torch
    from torch import func

    def jvp(f, x, v):
        return func.jvp(f, (x,), (v,))

    return SimpleNamespace(
        grad=func.grad,
        hessian=func.hessian,
        jacfwd=func.jacfwd,
        jacrev=func.jacrev,
        vmap=func.vmap,
        vjp=func.vjp,
        jvp=jvp,
        hvp=lambda f, x, v: jvp(func.grad(f), x, v)[1],
        stack=torch.stack,
        units=lambda x: list(torch.eye(x.numel(), dtype=x.dtype)),
    )


def _autograd() -> SimpleNamespace:
    """Return what autograd has: no `vmap`, and one function for a Jacobian."""
    import autograd

    return SimpleNamespace(
        grad=autograd.grad,
        hessian=autograd.hessian,
        jacfwd=autograd.jacobian,
        jacrev=autograd.jacobian,
        jvp=lambda f, x, v: autograd.make_jvp(f)(x)(v),
        hvp=lambda f, x, v: autograd.make_hvp(f)(x)[0](v),
    )


TRANSFORMATIONS = {"everyo": _everyo, "torch": _torch, "autograd": _autograd}


def case(library: str, adapter: Tape | Autograd, build: Build, arrays: Sequence[np.ndarray]) -> Case:
    """Return the case that runs a transformed function.

    Parameters
    ----------
    library : str
        A key of ``TRANSFORMATIONS``.
    adapter : Tape or Autograd
        The adapter of that library.
    build : callable
        ``build(t, fn, *inputs)`` returns the work, a function without arguments: `t` holds the
        transformations and `fn` the elementary functions of the library.
    arrays : sequence of ndarray
        The inputs; they become plain tensors, which ask for no gradient.
    """
    tensors = isinstance(adapter, Tape)
    inputs = [adapter.leaf(array, False) for array in arrays] if tensors else arrays
    run = build(TRANSFORMATIONS[library](), adapter.functions, *inputs)
    convert = adapter.numpy if tensors else np.asarray
    return Case(run, lambda: [np.array(convert(leaf)) for leaf in _leaves(run())])


def _leaves(result: object) -> Iterator[object]:
    """Yield the arrays or tensors of a result, which may be in tuples."""
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _leaves(part)
    else:
        yield result
