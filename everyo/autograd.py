"""`eo.autograd`: gradients of tensors that are already computed."""

from everyo.core.backward import backward as backward
from everyo.core.backward import grad as grad
