"""Random numbers: generators, distributions, and the seed of the default generator."""

from everyo.ops import random as _random
from everyo.ops.random import *  # noqa: F403

__all__ = _random.__all__


def __getattr__(name: str) -> object:
    from everyo.guidance.names import missing

    raise AttributeError(missing(name, __name__), name=name)
