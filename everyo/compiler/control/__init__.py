"""Loops and branches as operations of a graph, with their derivatives.

A body is traced once, into a graph of its own; what it reaches from outside becomes further inputs of
the operation. Derivatives replay the body under the transformation and trace that.
"""

from everyo.compiler.control import branches as _branches
from everyo.compiler.control import loops as _loops
from everyo.compiler.control import scans as _scans
