"""Linear algebra: NumPy's ``linalg`` and the Array API standard's, with derivatives of every order."""

from everyo.guidance import unknown_name as _unknown_name
from everyo.ops import linalg as _linalg
from everyo.ops.linalg import *  # noqa: F403

__all__ = _linalg.__all__

__getattr__ = _unknown_name(__name__)
