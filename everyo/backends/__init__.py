"""Backends: the arrays of each device. Importing this package registers the NumPy backend."""

from everyo.backends.numpy import NumpyBackend as NumpyBackend
