"""Transformations of functions: derivatives in every direction and order, over pytrees."""

from everyo.transforms.derivatives import grad as grad
from everyo.transforms.derivatives import linearize as linearize
from everyo.transforms.derivatives import value_and_grad as value_and_grad
from everyo.transforms.derivatives import vjp as vjp
from everyo.transforms.forward import jvp as jvp
from everyo.transforms.vectorize import vmap as vmap
