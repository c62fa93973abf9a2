"""Special functions: SciPy's ``special`` as far as derivatives are known, with these."""

from everyo.guidance import unknown_name as _unknown_name
from everyo.ops import special as _special
from everyo.ops.special import *  # noqa: F403

__all__ = _special.__all__

__getattr__ = _unknown_name(__name__)
