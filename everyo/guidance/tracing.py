"""What to write in place of a look at a value that exists only when a compiled program runs."""

from __future__ import annotations

import ast
import linecache
from types import FrameType
from typing import Any

from everyo.errors import user_frame
from everyo.guidance.conversions import expression, instead, position

_STATIC = "mark the argument in static_argnums"
_SHOWN = "eo.debug_print shows values"
_WHOLE = ("floor", "ceil", "trunc")  # asked for by functions of `math` alone
_REMEDIES = {
    "bool": f"use eo.where, eo.cond or eo.while_loop, or {_STATIC}",
    "index": f"{_STATIC} if it gives a size or a shape; x[i] of a tensor x takes a tensor i",
    "float": f"leave float() out: a tensor of one element serves as a number; {_SHOWN}; or {_STATIC}",
    "complex": f"leave complex() out: a tensor serves as a number; {_SHOWN}; or {_STATIC}",
    "int": f"write x.astype(eo.int64) in place of int(x), or {_STATIC} for a size; {_SHOWN}",
    **{
        name: f"write eo.{name}(x) in place of math.{name}(x), or {_STATIC} for a size; {_SHOWN}"
        for name in _WHOLE
    },
    "item": f"leave item() out: a tensor of one element serves as a number; {_SHOWN}; or {_STATIC}",
    "tolist": f"leave tolist() out: x[i] is an element, also in a loop over len(x); {_SHOWN}; or {_STATIC}",
    "numpy": f"leave it a tensor, which functions of np take; {_SHOWN}; or {_STATIC}",
    "format": "write eo.debug_print('{}', x) in place of the text, which would be made once",
    "print": "write eo.debug_print('{}', x) in place of print(x), which would run once",
}
_OTHERWISE = f"keep it a tensor: np.sin(x) or eo.sin(x) for math.sin(x); {_SHOWN}; or {_STATIC}"
# Of calls that ask for the truth of a tensor, and of statements, by the word before the condition.
_OF_CALLS = {
    "max": "write eo.maximum in place of max",
    "min": "write eo.minimum in place of min",
    "sorted": "write eo.sort in place of sorted",
    "any": "write eo.any in place of any",
    "all": "write eo.all in place of all",
    "bool": f"leave bool() out: eo.where and eo.cond take a tensor; or {_STATIC}",
}
_OF_STATEMENTS = {
    "if": f"use eo.where, eo.cond with a function for each branch, or {_STATIC}",
    "while": f"use eo.while_loop(condition, body, state) in place of the loop, or {_STATIC}",
    "assert": f"leave the assertion out, or check the result outside; {_SHOWN}",
}


def untraced(operation: str) -> str:
    """Return the remedy for an `operation` on a tensor whose value is not known while it is traced."""
    known = _REMEDIES.get(operation, _OTHERWISE)
    frame = user_frame()
    place = None if frame is None else position(frame)
    if frame is None or place is None:
        return known
    running = expression(frame, place)
    called = running.func.id if isinstance(running, ast.Call) and isinstance(running.func, ast.Name) else ""
    if operation == "bool":
        word = "if" if isinstance(running, ast.IfExp) else _word_before(frame, place)
        return _OF_CALLS.get(called) or _OF_STATEMENTS.get(word, known)
    if operation == "index" and called == "range":
        return f"{_loop(running)}, or {_STATIC}, which compiles a program for each value"
    if operation in ("float", "int") and isinstance(running, ast.BinOp):  # text % x
        return _REMEDIES["format"]
    if operation in ("index", *_WHOLE) or called == operation:
        return known
    return instead(_OTHERWISE if operation in ("float", "complex") else known)


def _loop(running: Any) -> str:
    """Return what to write in place of a loop over a range."""
    bounds = [ast.unparse(x) for x in running.args]
    if len(bounds) > 2:
        return f"write eo.while_loop in place of the loop over {ast.unparse(running)}"
    lower, upper = ["0", *bounds][-2:]
    return (
        f"write eo.fori_loop({lower}, {upper}, body, state) in place of the loop over {ast.unparse(running)}"
    )


def _word_before(frame: FrameType, place: tuple[int, int, int, int]) -> str:
    """Return the word before what runs, without `not` and brackets: the first one of a whole statement."""
    line = linecache.getline(frame.f_code.co_filename, place[0], frame.f_globals)
    words = line.encode()[: place[2]].decode(errors="replace").replace("(", " ").split()
    while words and words[-1] == "not":
        words.pop()
    word = words[-1] if words else line.split(maxsplit=1)[0] if line.strip() else ""
    return "if" if word == "elif" else word
