"""How an operation reads its operands: which leading axes it passes on unchanged."""

from __future__ import annotations

from everyo.compiler.graph import Op, Value

# what is nowhere kept: its elements are looked up, or ("again") computed, where they are read
VIEWS = frozenset(
    {"broadcast", "reshape", "transpose", "slice", "pad", "concat", "gather", "window", "again", "part"}
)


def lead(op: Op, position: int) -> int:
    """Return for how many leading axes element ``(i, j, ...)`` of a view is made of elements ``(i, j, ...)``.

    `position` is that of the operand. A reader that loops over those axes alone can compute the operand
    in the same turn.
    """
    source, out = op.operands[position], op.out
    longest = min(len(source.shape), len(out.shape))
    for axis in range(longest):
        if source.shape[axis] != out.shape[axis] or not _passes(op, position, axis):
            return axis
    return longest


def _passes(op: Op, position: int, axis: int) -> bool:
    """Whether an axis, of one length in operand and result, keeps its place and its positions."""
    params = op.params
    match op.name:
        case "broadcast":
            return bool(params["dims"][axis] == axis)
        case "reshape":
            return True
        case "transpose":
            return bool(params["axes"][axis] == axis)
        case "slice":
            return params["start"][axis] == 0 and (params["step"][axis] == 1 or op.out.shape[axis] == 1)
        case "pad":
            return position == 0 and params["low"][axis] == 0 and params["inner"][axis] == 0
        case "window":
            return bool(axis < len(op.operands[0].shape) - len(params["stride"]))
        case "concat":
            return bool(axis < params["axis"])
        case "gather":
            return _gathers(op, position, axis)
        case _:
            return True


def _gathers(op: Op, position: int, axis: int) -> bool:
    axes, at = op.params["axes"], op.params["at"]
    if position > 0:
        return bool(at == 0)
    if axis in axes:
        index = op.operands[1 + axes.index(axis)]
        return at == 0 and is_position(index, axis)
    return axis < at and axis < min(axes)


def is_position(value: Value, axis: int) -> bool:
    """Whether each element of a value is its own position along an axis."""
    op = value.op
    while op is not None and op.name == "broadcast" and axis < len(op.operands[0].shape):
        if op.params["dims"][axis] != axis:
            return False
        op = op.operands[0].op
    return op is not None and op.name == "iota" and op.params["axis"] == axis
