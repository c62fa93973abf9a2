"""EveryO: exact derivatives of NumPy-style code, eager, to any order."""

from everyo import autograd as autograd
from everyo import backends as backends
from everyo.core.device import available_devices as available_devices
from everyo.core.dtypes import *
from everyo.core.modes import detect_anomaly as detect_anomaly
from everyo.core.modes import enable_grad as enable_grad
from everyo.core.modes import inference_mode as inference_mode
from everyo.core.modes import is_grad_enabled as is_grad_enabled
from everyo.core.modes import no_grad as no_grad
from everyo.core.modes import set_grad_enabled as set_grad_enabled
from everyo.core.tensor import Tensor as Tensor
from everyo.errors import *
from everyo.ops import methods as _methods
from everyo.ops.creation import *
from everyo.ops.elementwise import *
from everyo.transforms import jvp as jvp

__version__ = "0.1.0"
