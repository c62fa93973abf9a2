"""The compiler: `everyo.compile` turns a function of tensors into machine code."""

from everyo.compiler.api import compile as compile
from everyo.compiler.printing import debug_print as debug_print

jit = compile
