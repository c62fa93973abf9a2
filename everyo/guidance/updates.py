"""Statements like ``a -= t`` that a user's line holds: what to write in place of one."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from everyo.errors import QUOTED, user_expression, user_frame, user_source
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


def of_leaf(inside: bool) -> str:
    """Return the remedy for a statement that changes a leaf which requires grad: it must stay that leaf.

    `inside`: to a value of a transformation, which ends before the leaf does.
    """
    if inside:
        return "return the new value from the function, and update the leaf outside, in `with eo.no_grad():`"
    frame = user_frame()
    running = None if frame is None else _statement(user_expression(frame))
    found = running or (None if frame is None else _statement(user_source(frame)))
    if found is None or len(ast.unparse(found)) > QUOTED:
        return "update it inside `with eo.no_grad():`, where it stays the leaf whose .grad backward() fills"
    if isinstance(running, ast.AugAssign):
        other = f"y = {ast.unparse(ast.BinOp(running.target, running.op, running.value))}"
    else:  # it is stored into the leaf
        target = found.targets[0] if isinstance(found, ast.Assign) else found.target
        owner = ast.unparse(getattr(target, "value", target))
        other = f"y = {owner}.copy()` and `y{ast.unparse(found)[len(owner) :]}"
    return (
        f"write `with eo.no_grad(): {ast.unparse(found)}` for an update, which keeps the leaf and its .grad; "
        f"where the change is part of what is differentiated, `{other}`"
    )


def _statement(text: str) -> ast.Assign | ast.AugAssign | None:
    """Return the statement of a text if it is one that changes an object."""
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return statement
    return statement if isinstance(statement, ast.AugAssign) else None


def unfitting(target: Any, fitting: str) -> str:
    """Return the remedy for a result that its target cannot take; a leaf stays one."""
    if target.grad_node is not None and target.grad_node.is_leaf:
        return f"give it {fitting}: another tensor under its name would be no leaf, whose .grad is None"
    statement = update()
    return "write x = x + v instead of x += v" if statement is None else statement.remedy
