"""Random numbers: generators, distributions, and the seed of the default generator."""

from everyo.guidance import unknown_name as _unknown_name
from everyo.ops import random as _random
from everyo.ops.random import *  # noqa: F403

__all__ = _random.__all__

__getattr__ = _unknown_name(__name__)
