"""Random tensors: `eo.random`.

A `Generator` is a reproducible stream of random numbers. The functions of this module draw from the
default one, which `manual_seed` seeds and which threads may share; ``generator=`` names another.
Parameters that are tensors stay differentiable: ``normal(loc, scale)`` is ``loc + scale * noise``.
"""

from __future__ import annotations

import _thread
import functools
import inspect
from collections.abc import Callable
from typing import Any

from everyo.core.device import backend_for
from everyo.core.tensor import Tensor
from everyo.core.traced import staged
from everyo.errors import DTypeError
from everyo.ops.docstrings import with_sections
from everyo.ops.generator import Generator

__all__ = [
    "Generator", "bernoulli", "choice", "default_generator", "exponential", "integers", "manual_seed",
    "normal", "permutation", "randint", "standard_normal", "uniform",
]  # fmt: skip

_SOURCE = """generator : Generator, optional
    Where the numbers come from; by default the default generator of the device.
device : str, optional
    Which default generator that is; "cpu" by default."""
_ERRORS = """DeviceError
    If there is no such device."""

_defaults: dict[str, Generator] = {}
_seed: int | None = None
_lock = _thread.allocate_lock()


def default_generator(device: str | None = None) -> Generator:
    """Return the generator of a device that functions draw from when none is given.

    Parameters
    ----------
    device : str, optional
        The name of the device; "cpu" by default.

    Returns
    -------
    Generator
        The same at each call.

    Raises
    ------
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import everyo as eo
    >>> eo.random.default_generator().device
    'cpu'
    """
    place = backend_for(device)[1]
    with _lock:
        if place not in _defaults:
            with staged(None):
                _defaults[place] = Generator(_seed, place)
        return _defaults[place]


def manual_seed(seed: int) -> Generator:
    """Start the default generators anew at `seed`; return that of the CPU.

    Parameters
    ----------
    seed : int
        At least 0. With None each starts somewhere new.

    Returns
    -------
    Generator
        The default generator of the CPU.

    Raises
    ------
    ArgumentError
        If it is no seed.
    CompileError
        If a function that is being compiled calls it.

    Examples
    --------
    >>> import everyo as eo
    >>> _ = eo.manual_seed(0)
    >>> first = eo.random.normal(size=3)
    >>> _ = eo.manual_seed(0)
    >>> assert (eo.random.normal(size=3) == first).all()
    """
    global _seed
    Generator(seed)  # refuses what is no seed before anything changes
    with _lock:
        _seed = seed
        for generator in _defaults.values():
            generator.manual_seed(seed)
    return default_generator()


def source(generator: Generator | None, device: str | None, operation: str) -> Generator:
    """Return the generator that an operation draws from; DTypeError if it was given something else."""
    if generator is None:
        return default_generator(device)
    if not isinstance(generator, Generator):
        raise DTypeError(
            "this is no generator",
            operation=operation,
            expected="an eo.random.Generator",
            found=repr(generator),
            remedy="make one: eo.random.Generator(seed)",
        )
    return generator


def _drawing(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a method of `Generator` as a function that also takes ``generator=`` and ``device=``."""

    @functools.wraps(method)
    def function(
        *args: Any, generator: Generator | None = None, device: str | None = None, **options: Any
    ) -> Tensor:
        return method(source(generator, device, method.__name__), *args, **options)

    signature = inspect.signature(method)
    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(name, keyword, default=None) for name in ("generator", "device")]
    function.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*list(signature.parameters.values())[1:], *extra]
    )
    function.__module__, function.__qualname__ = __name__, method.__name__
    function.__doc__ = with_sections(method.__doc__, Parameters=_SOURCE, Raises=_ERRORS)
    return function


uniform = _drawing(Generator.uniform)
standard_normal = _drawing(Generator.standard_normal)
normal = _drawing(Generator.normal)
exponential = _drawing(Generator.exponential)
integers = _drawing(Generator.integers)
randint = _drawing(Generator.randint)
bernoulli = _drawing(Generator.bernoulli)
permutation = _drawing(Generator.permutation)
choice = _drawing(Generator.choice)
