"""Detection of sparsity: beside each value goes, for each element, the set of inputs it depends on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from everyo.core.dispatch import each
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Interpreter, Traced
from everyo.errors import GraphStateError, UnsupportedOperationError, describe
from everyo.ops.creation import as_tensor
from everyo.transforms.custom_calls import layout_of
from everyo.transforms.custom_values import floating, spread
from everyo.transforms.levels import lower, raised
from everyo.transforms.raveling import ravel
from everyo.transforms.sparse.rules import Call, Links, links, rule_for

LIMIT = 2**28  # entries of one pattern: more than a gigabyte
# Operations whose integer operands decide what is read from or written where.
INDEXED = frozenset(
    {"getitem", "index_update", "assemble", "take_along_axis", "scatter_along_axis", "delete", "insert"}
)


class Dependent(Traced):
    """A value and the inputs that each of its elements depends on.

    Attributes
    ----------
    sets : scipy.sparse.csr_array of bool
        One row for each element, one column for each element of the input. Empty rows also for values
        that depend on the input by steps alone, as ``x > 0`` does.
    """

    __slots__ = ("sets",)

    def __init__(self, interpreter: Interpreter, value: Any, sets: Any) -> None:
        self.interpreter, self.below, self.sets = interpreter, value, sets

    def concrete(self, operation: str) -> Any:
        if operation == "numpy" and self.sets.nnz:
            raise GraphStateError(
                "a NumPy array would lose what it depends on",
                operation=operation,
                inputs=describe(self),
                expected="a tensor that is not differentiated",
                found="a value inside sparsity detection",
                remedy="compute with eo functions, or detach it first: x.detach().numpy()",
            )
        if operation != "print":
            self.interpreter.local = True  # type: ignore[attr-defined]
        return self.below


class Detection(Interpreter):
    """Propagates index sets through each operation, by the rules of `everyo.transforms.sparse.rules`.

    Attributes
    ----------
    local : bool
        Whether what was computed, and so the pattern, depended on values: by an `if` or an index.
    """

    name = "sparsity detection"
    follows = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.local = size, False

    def variable(self, x: Tensor) -> Tensor:
        """Return the input: each element depends on itself."""
        return wrap(Dependent(self, lower(x), sp.eye_array(self.size, dtype=bool, format="csr")))

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute the primitive on the level below; unite the sets of what each element depends on."""
        varies = [self.mine(x) for x in inputs]
        values = [x.data.below if v else lower(x) for x, v in zip(inputs, varies, strict=True)]
        out = primitive(*values, **params)
        if primitive.family == "custom":
            return self._by_rules(primitive, inputs, values, out)
        integers = any(v and x.dtype.kind in "iu" for x, v in zip(inputs, varies, strict=True))
        if primitive.name == "nonzero" or (integers and primitive.name in INDEXED):
            self.local = True
        operands = [(i, x.data.sets) for i, x in enumerate(inputs) if varies[i]]

        def dependent(result: Any) -> Tensor:
            call = Call(primitive, values, varies, params, result)
            return wrap(Dependent(self, result, self._united(call, operands)))

        return each(dependent, out)

    def _by_rules(self, primitive: Any, inputs: Sequence[Any], values: Sequence[Any], out: Any) -> Any:
        """Unite the sets for a function with rules of the user's own; they decide, and may look at values."""
        self.local = True
        matrices = rules_links(primitive, values, [self.mine(x) for x in inputs], out)
        sets = [x.data.sets for x in inputs if self.mine(x)]
        joint = sp.vstack(sets, format="csr")
        made = []
        for result, matrix in zip(out, matrices, strict=True):
            found = _linked(matrix, joint, primitive)
            empty = sp.csr_array((as_tensor(result).size, self.size), dtype=bool)
            made.append(wrap(Dependent(self, result, empty if found is None else found)))
        return tuple(made)

    def _united(self, call: Call, operands: Sequence[tuple[int, Any]]) -> Any:
        """Return the sets of a result."""
        total = None
        if call.out.dtype.kind in DIFFERENTIABLE:
            rule = rule_for(call.primitive)
            for i, sets in operands:
                found = _linked(rule(call, i), sets, call.primitive) if sets.nnz else None
                if found is not None:
                    total = found if total is None else total + found
        return sp.csr_array((call.out.size, self.size), dtype=bool) if total is None else total

    def pattern(self, result: Any) -> Any:
        """Return the sets of a result of the function."""
        if self.mine(result):
            return result.data.sets
        return sp.csr_array((as_tensor(result).size, self.size), dtype=bool)


def _linked(matrices: Links, sets: Any, primitive: Primitive) -> Any:
    """Return what the result depends on through one operand, or None for nothing."""
    if matrices is None:
        return None
    for matrix in reversed(matrices):
        if np.diff(sets.indptr)[matrix.indices].sum(dtype="int64") > LIMIT:
            raise UnsupportedOperationError(
                "the dependences are too many to be listed",
                operation=primitive.name,
                expected=f"at most {LIMIT} nonzeros",
                found="a result whose elements depend on too many inputs each",
                remedy="use eo.hvp or eo.vjp, which need no matrix, or pass sparsity=...",
            )
        sets = matrix @ sets
    return sets


def rules_links(primitive: Any, values: Sequence[Any], varies: Sequence[bool], out: Any) -> list[Links]:
    """Return for each result of a call with the user's own rules the links to all operands that vary, joined.

    The rules run on tangents whose sets are followed; where they compute in NumPy, all depends on all.
    """
    rules, layout = primitive.rules, layout_of(primitive.rules)
    tensors = [raised(v) for v in values]
    residuals = layout.pick(values, out)
    shapes = [tuple(x.shape) if v else None for x, v in zip(tensors, varies, strict=True)]

    def pieces(vector: Tensor, others: Sequence[Any]) -> list[Any]:
        found, start = [], 0
        for shape, x, other in zip(shapes, tensors, others, strict=True):
            if shape is None:
                found.append(other)
                continue
            part = vector[start : start + math.prod(shape)]
            found.append(op.astype(op.reshape(part, shape=shape), dtype=x.dtype))
            start += math.prod(shape)
        return found

    def pushed(vector: Tensor) -> list[Any]:
        return rules.push(tensors, residuals, pieces(vector, [None] * len(tensors)))

    def kept(vector: Tensor) -> list[Any]:
        places = [s for s in range(layout.count) if floating(out[len(layout.outs) + s].dtype)]
        return spread(rules.again(pieces(vector, tensors)), places, layout.count)

    point = ravel([x for x, v in zip(tensors, varies, strict=True) if v])
    found = _patterns(pushed, point, out[: len(layout.outs)])
    return found + _patterns(kept, point, out[len(layout.outs) :])


def _patterns(function: Callable[[Tensor], list[Any]], point: Tensor, results: Sequence[Any]) -> list[Links]:
    """Return the links of each of several results of a function of a vector."""
    if not results:
        return []
    size = point.size
    try:
        with Detection(size) as detection:
            found = function(detection.variable(point))
            sets = [None if x is None else detection.pattern(x) for x in found]
    except (GraphStateError, UnsupportedOperationError):
        whole = links(np.zeros(1, int), np.arange(size), (1, size))
        counts = [as_tensor(x).size for x in results]
        return [(links(np.arange(n), np.zeros(1, int), (n, 1)), whole) for n in counts]
    return [None if s is None else (s,) for s in sets]


def detect(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Any, bool]:
    """Return the Jacobian's sparsity pattern for a function of a vector, and whether it is local.

    Parameters
    ----------
    function : callable
        Takes a tensor of shape (n,), returns one of shape (m,).
    x : tensor
        Where control flow and indices that depend on values are decided.

    Returns
    -------
    pattern : scipy.sparse.csr_array of bool, shape (m, n)
        True wherever the derivative may be nonzero.
    local : bool
        Whether the pattern may be another one elsewhere.
    """
    with Detection(x.size) as detection:
        pattern = detection.pattern(detection.released(function(detection.variable(x))))
    pattern.sort_indices()
    return pattern, detection.local
