"""`eo.autograd`: gradients of tensors that are already computed, and operations of one's own."""

from everyo.core.backward import backward as backward
from everyo.core.backward import grad as grad
from everyo.transforms.function import Function as Function
from everyo.transforms.function import once_differentiable as once_differentiable
