"""Special functions: SciPy's ``special`` as far as derivatives are known, with these."""

from everyo.ops import special as _special
from everyo.ops.special import *  # noqa: F403

__all__ = _special.__all__


def __getattr__(name: str) -> object:
    from everyo.guidance.names import missing

    raise AttributeError(missing(name, __name__), name=name)
