"""What Jacobians share: unit vectors in batches of bounded memory, and which complex derivatives exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.dispatch import each
from everyo.core.dtypes import DIFFERENTIABLE
from everyo.core.ownership import as_changeable
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import Interpreter, Traced, innermost
from everyo.errors import ArgumentError, DTypeError, describe
from everyo.ops.creation import fresh
from everyo.ops.known import look
from everyo.transforms.custom_values import probe
from everyo.transforms.levels import lower, raised
from everyo.transforms.vectorize import as_chunk, mapped

AT_ONCE = 2**22  # elements that one operand or result of a batch of passes may have
FIRST = 1024  # passes in the first batch at most: it shows how large the results are
Pass = Callable[..., Sequence[Tensor]]


class Watch(Interpreter):
    """Computes as outside of all transformations, and refuses in-place statements on captured tensors."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def copies(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return tensors as values of this level."""
        return [as_changeable(wrap(Traced(self, lower(x))), x) for x in tensors]

    def process(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on the level below; what has no derivative stays there."""
        out = primitive(*(x.data.below if self.mine(x) else lower(x) for x in inputs), **params)
        return each(raised if primitive.vjp is None else lambda o: wrap(Traced(self, o)), out)


def units(tensors: Sequence[Tensor], start: int, stop: int) -> list[Tensor]:
    """Return for each tensor some unit vectors of the joint space: shape (stop - start, *shape)."""
    offset, found = 0, []
    for t in tensors:
        backend, size = t.backend, t.size
        rows = backend.xp.eye(stop - start, size, k=start - offset, dtype=t.dtype)
        unit = fresh(backend.asarray(rows, None, t.device))
        found.append(unit if t.ndim == 1 else op.reshape(unit, shape=(stop - start, *t.shape)))
        offset += size
    return found


def in_batches(
    one: Pass, tensors: Sequence[Tensor], chunk_size: int | None, others: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Return what `one` gives for every unit vector of the joint space of `tensors`, each (total, *result).

    `others` are further tensors of which there is one for each pass. `chunk_size` passes run at once; by
    default as many as keep each of these tensors, and of the results, below `AT_ONCE` elements.
    """
    chunk = as_chunk(chunk_size)
    if not tensors:
        return []
    total, start = sum(t.size for t in tensors), 0
    parts: list[list[Tensor]] = []
    widest = max([innermost(t).size for t in (*tensors, *others)], default=1)
    step = min(at_once(widest), FIRST) if chunk is None else chunk
    while start < total or not parts:
        stop = min(start + step, total)
        rows = mapped(one, units(tensors, start, stop))
        parts.append(rows)
        if chunk is None and start == 0 < stop:
            step = at_once(max([widest, *(innermost(row).size // stop for row in rows)]))
        start = stop
    return (
        parts[0] if len(parts) == 1 else [op.concat(*column, axis=0) for column in zip(*parts, strict=True)]
    )


def at_once(width: int) -> int:
    """Return how many passes may run at once where the widest tensor has `width` elements."""
    return max(1, AT_ONCE // max(width, 1))


def promoted(block: Tensor, point: Tensor, output: Any) -> Tensor:
    """Return a block in the dtype that input and output promote to; in the input's if the output is discrete.

    Forward mode computes in the output's dtype, reverse mode in that of the input.
    """
    dtype = point.dtype
    if output.kind in DIFFERENTIABLE and output != dtype:
        dtype = point.backend.xp.result_type(dtype, output)
    return block if block.dtype == dtype else op.astype(block, dtype=dtype)


def require_inputs(points: Sequence[Tensor], holomorphic: bool, operation: str) -> None:
    """Raise unless the derivative with respect to `points` is one matrix.

    Raises
    ------
    DTypeError
        If a point is complex without `holomorphic`, or real with it.
    """
    for point in points:
        if holomorphic == (point.dtype.kind == "c"):
            continue
        if holomorphic:
            raise DTypeError(
                "holomorphic=True is for complex inputs",
                operation=operation,
                inputs=describe(*points),
                expected="complex tensors",
                found=str(point.dtype),
                remedy="leave holomorphic out: of a real input the derivative is complex where the output is",
            )
        raise DTypeError(
            "the derivative with respect to a complex input is no single complex number",
            operation=operation,
            inputs=describe(*points),
            expected="real inputs, or holomorphic=True for a function with a complex derivative df/dz",
            found=str(point.dtype),
            remedy="pass real and imaginary part as inputs of their own, f(x + 1j * y); of a real loss take "
            "eo.grad, and eo.hvp for its second derivative; for single directions eo.jvp and eo.vjp",
        )


def require_outputs(outputs: Sequence[Tensor], operation: str) -> None:
    """Raise DTypeError for a real output of a function that is called holomorphic."""
    for output in outputs:
        if output.dtype.kind != "c":
            raise DTypeError(
                "a holomorphic function has complex results, and this one returned a real one",
                operation=operation,
                inputs=describe(*outputs),
                expected="complex outputs",
                found=str(output.dtype),
                remedy="leave holomorphic out, and pass real and imaginary part as inputs of their own",
            )


def require_holomorphic(one: Pass, tensors: Sequence[Tensor], operation: str) -> None:
    """Raise ArgumentError unless a pass is complex linear: the equations of Cauchy and Riemann hold.

    One direction of no special values tells, as a derivative by the conjugate does not vanish along it.
    """
    direction = [probe((tuple(t.shape), t.dtype)) for t in tensors]
    along, turned = one(*direction), one(*(op.multiply(d, 1j) for d in direction))
    backends, inputs = [x.backend for x in along], describe(*tensors)

    def check(*arrays: Any) -> None:
        for position, backend in enumerate(backends):
            straight, other = arrays[2 * position : 2 * position + 2]
            with backend.quiet():
                eps = float(backend.xp.finfo(straight.dtype).eps)
                gap, scale = abs(other - 1j * straight), abs(other) + abs(straight)
                wrong = gap > eps**0.5 * scale + 64 * eps * (scale.max() if scale.size else 0)
            if wrong.any():
                raise _not_holomorphic(operation, inputs, position)

    look(check, *(x for pair in zip(along, turned, strict=True) for x in pair), batches=True)


def _not_holomorphic(operation: str, inputs: str, position: int) -> ArgumentError:
    return ArgumentError(
        "the function is not holomorphic here: its derivative along i is not i times that along 1",
        operation=operation,
        inputs=inputs,
        expected="a function of z alone, without abs, conj, real and imag",
        found=f"a derivative by the conjugate, in leaf {position}",
        remedy="pass real and imaginary part as inputs of their own, f(x + 1j * y), which are real",
    )
