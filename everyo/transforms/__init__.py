"""Transformations of functions: derivatives in every direction and order, over pytrees."""

from everyo.transforms.checkpoint import checkpoint as checkpoint
from everyo.transforms.checkpoint import checkpoint_sequential as checkpoint_sequential
from everyo.transforms.control import cond as cond
from everyo.transforms.control import fori_loop as fori_loop
from everyo.transforms.control import while_loop as while_loop
from everyo.transforms.derivatives import grad as grad
from everyo.transforms.derivatives import linearize as linearize
from everyo.transforms.derivatives import value_and_grad as value_and_grad
from everyo.transforms.derivatives import vjp as vjp
from everyo.transforms.forward import jvp as jvp
from everyo.transforms.jacobians import hessian as hessian
from everyo.transforms.jacobians import hvp as hvp
from everyo.transforms.jacobians import jacfwd as jacfwd
from everyo.transforms.jacobians import jacobian as jacobian
from everyo.transforms.jacobians import jacrev as jacrev
from everyo.transforms.jacobians import vhp as vhp
from everyo.transforms.scanning import associative_scan as associative_scan
from everyo.transforms.scanning import map as map
from everyo.transforms.scanning import scan as scan
from everyo.transforms.trees import tree_map as tree_map
from everyo.transforms.vectorize import vmap as vmap
