"""`eo.testing`: prove derivatives, your own included, against differences.

>>> import everyo as eo
>>> x = eo.tensor([0.3, 2.0], dtype=eo.float64)
>>> assert eo.testing.gradcheck(lambda x: x * eo.sin(x), x)
"""

from everyo.guidance import unknown_name as _unknown_name
from everyo.testing.checks import check_jvp as check_jvp
from everyo.testing.checks import gradcheck as gradcheck
from everyo.testing.checks import gradgradcheck as gradgradcheck
from everyo.testing.differences import numerical_gradient as numerical_gradient
from everyo.testing.metric import GradientCheckError as GradientCheckError
from everyo.testing.metric import relative_error as relative_error
from everyo.testing.metric import tolerance as tolerance

__all__ = [
    "GradientCheckError",
    "check_jvp",
    "gradcheck",
    "gradgradcheck",
    "numerical_gradient",
    "relative_error",
    "tolerance",
]

__getattr__ = _unknown_name(__name__)
