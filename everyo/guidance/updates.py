"""Statements like ``a -= t`` that a user's line holds: what to write in place of one."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from everyo.errors import user_expression, user_frame
from everyo.guidance.conversions import resolved

_SIGNS = {
    ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/=", ast.FloorDiv: "//=", ast.Mod: "%=",
    ast.Pow: "**=", ast.MatMult: "@=", ast.BitAnd: "&=", ast.BitOr: "|=", ast.BitXor: "^=",
    ast.LShift: "<<=", ast.RShift: ">>=",
}  # fmt: skip


@dataclass
class Update:
    """An in-place statement: its sign, what does the same, and whether a tensor owns its target."""

    sign: str
    remedy: str
    of_tensor: bool


def update() -> Update | None:
    """Return the in-place statement that the user's code runs, or None."""
    frame = user_frame()
    text = "" if frame is None else user_expression(frame)
    if frame is None or "=" not in text:
        return None
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(statement, ast.AugAssign):
        return None
    target, sign = statement.target, _SIGNS[type(statement.op)]
    names: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    owner = ast.unparse(target.value) if isinstance(target, ast.Attribute) and target.attr == "data" else ""
    if owner and hasattr(resolved(owner, names), "grad_node"):
        remedy = f"write `with eo.no_grad(): {owner} {sign} {ast.unparse(statement.value)}`"
        return Update(sign, remedy, of_tensor=True)
    name = ast.unparse(target)
    value = ast.unparse(ast.BinOp(target, statement.op, statement.value))
    return Update(sign, f"write {name} = {value}", of_tensor=False)
