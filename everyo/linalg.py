"""Linear algebra: NumPy's ``linalg`` and the Array API standard's, with derivatives of every order."""

from everyo.ops import linalg as _linalg
from everyo.ops.linalg import *  # noqa: F403

__all__ = _linalg.__all__


def __getattr__(name: str) -> object:
    from everyo.guidance.names import missing

    raise AttributeError(missing(name, __name__), name=name)
