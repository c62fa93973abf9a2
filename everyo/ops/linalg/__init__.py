"""Linear algebra, with derivatives of every order."""

from everyo.ops.linalg import (
    degeneracy,
    determinants,
    eigen,
    factors,
    functions,
    hermitian,
    least_squares,
    norms,
    orthogonal,
    positive,
    products,
    singular,
    singular_gaps,
    solving,
    triangular,
)
from everyo.ops.linalg.determinants import *
from everyo.ops.linalg.eigen import *
from everyo.ops.linalg.factors import *
from everyo.ops.linalg.functions import *
from everyo.ops.linalg.hermitian import *
from everyo.ops.linalg.least_squares import *
from everyo.ops.linalg.norms import *
from everyo.ops.linalg.orthogonal import *
from everyo.ops.linalg.positive import *
from everyo.ops.linalg.products import *
from everyo.ops.linalg.singular import *
from everyo.ops.linalg.solving import *
from everyo.ops.linalg.triangular import *

__all__ = [
    *determinants.__all__,
    *eigen.__all__,
    *factors.__all__,
    *functions.__all__,
    *hermitian.__all__,
    *least_squares.__all__,
    *norms.__all__,
    *orthogonal.__all__,
    *positive.__all__,
    *products.__all__,
    *singular.__all__,
    *solving.__all__,
    *triangular.__all__,
]
