"""Transformations of functions."""

from everyo.transforms.forward import jvp as jvp
