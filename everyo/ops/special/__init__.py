"""Special functions, under SciPy's names."""

from everyo.ops.exponential import erf, erfc
from everyo.ops.normalizers import log_softmax, logsumexp, softmax
from everyo.ops.special import (
    bessel,
    bessel_orders,
    bessel_scaled,
    cardinal_sine,
    elliptic,
    entropy,
    error,
    exponential_integrals,
    gamma_family,
    incomplete_beta,
    incomplete_gamma,
    incomplete_inverses,
    logistic,
    power_transforms,
    quotients,
    zeta_function,
)
from everyo.ops.special.bessel import *
from everyo.ops.special.bessel_orders import *
from everyo.ops.special.bessel_scaled import *
from everyo.ops.special.cardinal_sine import *
from everyo.ops.special.elliptic import *
from everyo.ops.special.entropy import *
from everyo.ops.special.error import *
from everyo.ops.special.exponential_integrals import *
from everyo.ops.special.gamma_family import *
from everyo.ops.special.incomplete_beta import *
from everyo.ops.special.incomplete_gamma import *
from everyo.ops.special.incomplete_inverses import *
from everyo.ops.special.logistic import *
from everyo.ops.special.power_transforms import *
from everyo.ops.special.quotients import *
from everyo.ops.special.zeta_function import *

__all__ = [
    "erf", "erfc", "log_softmax", "logsumexp", "softmax",
    *bessel.__all__, *bessel_orders.__all__, *bessel_scaled.__all__, *cardinal_sine.__all__,
    *elliptic.__all__, *entropy.__all__, *error.__all__, *exponential_integrals.__all__,
    *gamma_family.__all__, *incomplete_beta.__all__, *incomplete_gamma.__all__,
    *incomplete_inverses.__all__, *logistic.__all__, *power_transforms.__all__, *quotients.__all__,
    *zeta_function.__all__,
]  # fmt: skip
