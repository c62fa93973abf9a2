"""What to write in place of a call that makes numbers or arrays of tensors; read when one has failed."""

from __future__ import annotations

import ast
import dis
import inspect
import itertools
import linecache
import operator
import os
import re
import sys
from types import FrameType
from typing import Any

from everyo.errors import QUOTED, user_expression, user_frame, user_source
from everyo.guidance.foreign import CALLED, DISPATCHED, DISTRIBUTIONS, DRAWS, PACKAGES, RULES, SAME
from everyo.guidance.rules import MANNERS, applied

_CALL = re.compile(r"([A-Za-z_][\w.]*)([(\[])")
_UPDATE = re.compile(r"(.*?)\s*(?:\*\*|//|>>|<<|[-+*/@%&|^])=(?!=)", re.DOTALL)
_NUMPY = {
    "array": "eo.asarray or eo.stack", "asarray": "eo.asarray", "asanyarray": "eo.asarray",
    "ascontiguousarray": "eo.asarray", "full": "eo.full", "full_like": "eo.full_like",
    "copyto": "x[...] = value with a tensor x", "put": "x[i] = value with a tensor x", "fromiter": "eo.stack",
    "float64": "x.astype(eo.float64)", "float32": "x.astype(eo.float32)",
    "float16": "x.astype(eo.float16)", "complex64": "x.astype(eo.complex64)",
    "complex128": "x.astype(eo.complex128)",
}  # fmt: skip
# What is indexed in place of a call, by the name of its class.
_INDEXED = {"RClass": "eo.concat([...])", "CClass": "eo.column_stack([...])"}
_NAMESPACES = ("", "special", "linalg", "fft", "scipy_compat")


def instead(otherwise: str, more: str = "") -> str:
    """Return the remedy for a conversion by what the user's line calls; `otherwise` where that is unknown."""
    frame = user_frame()
    if frame is None:
        return otherwise
    names = {**frame.f_globals, **frame.f_locals}
    running, kind = user_expression(frame), _running(frame)
    known: str | None
    if kind == "store":
        known = _stored(running, names, frame)
    elif kind == "read":
        known = _read(running, names)
    else:
        found = (_in_place_of(path, opened, names, node) for path, opened, node in running_calls(frame))
        known = next(filter(None, found), None)
    return otherwise if known is None else known + more


def running_calls(frame: FrameType) -> list[tuple[str, str, ast.expr | None]]:
    """Return the call that a frame runs; all of its line where no instruction says which."""
    place = position(frame)
    if place is None:
        return [(path, opened, None) for path, opened in _CALL.findall(user_source(frame))]
    running = expression(frame, place)
    if isinstance(running, ast.Call):
        return [(ast.unparse(running.func), "(", running)]
    if isinstance(running, ast.BinOp):
        return [(ast.unparse(side), "@", running) for side in (running.left, running.right)]
    return [(ast.unparse(running.value), "[", running)] if isinstance(running, ast.Subscript) else []


def position(frame: FrameType) -> tuple[int, int, int, int] | None:
    """Return first and last line, first and last column of what a frame runs; None where it is not known."""
    place: Any = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    return None if place is None or None in place else place


def expression(frame: FrameType, place: tuple[int, int, int, int]) -> ast.expr | None:
    """Return the expression at a place of a frame's source; None for a statement."""
    first, last, begin, end = place
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    text = [line.encode() for line in lines]
    try:
        text[-1] = text[-1][:end]
        text[0] = text[0][begin:]
        return ast.parse(b"(" + b"".join(text) + b")", mode="eval").body
    except (IndexError, SyntaxError, ValueError):  # a statement, or a file that has changed
        return None


def _instruction(frame: FrameType) -> tuple[str, str]:
    """Return the name of the instruction that a frame runs, and how its argument reads."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.opname, instruction.argrepr
    return "", ""


def formats(frame: FrameType) -> bool:
    """Whether a frame puts numbers into a text by the operator ``%``."""
    place = position(frame) if _instruction(frame) == ("BINARY_OP", "%") else None
    running = None if place is None else expression(frame, place)
    if not isinstance(running, ast.BinOp):
        return False
    if isinstance(running.left, (ast.Constant, ast.JoinedStr)):
        return not isinstance(getattr(running.left, "value", ""), (int, float, complex))
    known = resolved(ast.unparse(running.left), {**frame.f_globals, **frame.f_locals})
    return isinstance(known, (str, bytes))


def _running(frame: FrameType) -> str:
    """Return whether a frame stores into an object by an index, reads from one, or does something else."""
    name, symbol = _instruction(frame)
    if name.startswith(("STORE_SUBSCR", "STORE_SLICE")):
        return "store"
    if name.startswith(("BINARY_SUBSCR", "BINARY_SLICE")) or symbol == "[]":
        return "store" if _UPDATE.match(user_expression(frame, after=True)) else "read"
    target = _UPDATE.match(user_expression(frame))
    return "store" if symbol.endswith("=") and target and target[1].endswith("]") else ""


def _indexed(text: str) -> ast.Subscript | None:
    """Return an expression that indexes something, or None for what is none or only part of one."""
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    return found if isinstance(found, ast.Subscript) else None


def _is_array(path: str, names: dict[str, Any]) -> bool:
    return type(resolved(path, names)).__module__ == "numpy"


def _stored(text: str, names: dict[str, Any], frame: FrameType) -> str:
    """Return what to do about a tensor that is stored into an array: a tensor made for it has no effect."""
    update = _UPDATE.match(text)
    target = _indexed(update[1] if update else text)
    if target is None:
        return f"make the array a tensor, {_made(None)}"
    owner = part = ast.unparse(target.value)
    inner: Any = target.value
    while not _is_array(part, names):
        inner = getattr(inner, "func", None) or getattr(inner, "value", None)
        if not isinstance(inner, ast.AST):
            return f"make {owner} a tensor, {_made(None)}"
        part = ast.unparse(inner)
    made = _made(getattr(resolved(part, names), "dtype", None))
    if part != owner:
        return (
            f"make {part} a tensor, {made}, and store into {part} with one index: "
            f"what is stored into {owner} would not reach it"
        )
    return f"make {owner} a tensor, {made}" + _of_another(owner, names, frame)


def _made(dtype: Any) -> str:
    """Return how a tensor is made in place of an array; in its dtype, as Python's floats are float32 here."""
    kept = dtype if getattr(dtype, "kind", "") in ("f", "c") else "float64"
    return f"with eo.zeros(n, dtype=eo.{kept}) in place of np.zeros(n)"


def _of_another(path: str, names: dict[str, Any], frame: FrameType) -> str:
    """Return how else to get a tensor for an array, or which array to replace: not a copy of a part."""
    code = frame.f_code
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if getattr(resolved(path, names), "base", None) is not None:
        return f"; if {path} is part of another array, make that one a tensor and store into it"
    if path in given:
        return ", where the function is called"
    whole = getattr(getattr(resolved(path, names), "dtype", None), "kind", "f") not in ("f", "c")
    return f", or {path} = eo.asarray({path}{', dtype=eo.float64' * whole}) before"


def _read(text: str, names: dict[str, Any]) -> str | None:
    """Return what to write in place of an array that is read where a tensor says."""
    source = _indexed(text)
    if source is None:
        return None
    path = ast.unparse(source.value)
    if not _is_array(path, names):
        return _in_place_of(path, "[", names, source)
    if len(text) > QUOTED:
        return f"write eo.asarray({path})[...] in place of {path}[...]"
    return f"write eo.asarray({path}){text[len(path) :]} in place of {text}"


def resolved(path: str, names: dict[str, Any]) -> Any:
    """Return what a dotted name stands for, or None; no code of the user's runs for that."""
    first, *rest = path.split(".")
    found = names.get(first)
    for part in rest:
        found = inspect.getattr_static(found, part, None)
    return found


def _in_place_of(path: str, opened: str, names: dict[str, Any], node: ast.expr | None) -> str | None:
    """Return what to write in place of what a line calls or indexes of Python, NumPy or SciPy."""
    called = resolved(path, names)
    if opened == "[":
        return _written(_INDEXED.get(type(called).__name__), f"{path}[...]")
    if opened == "@":
        return _of_sparse(path, called)
    call = node if isinstance(node, ast.Call) else None
    owner, _, method = path.rpartition(".")
    holder = resolved(owner, names)
    kind = type(holder).__module__
    if method == "dot" and kind == "numpy":
        return f"write {owner} @ x in place of {path}(x)"
    if method == "dot" and kind.startswith("scipy.sparse"):
        return _of_sparse(owner, holder)
    if kind.startswith("scipy.stats"):
        rule = DISTRIBUTIONS.get(f"{type(holder).__name__.removesuffix('_gen')}.{method}")
        return _by_rule(rule, path, call, names)
    if kind.startswith("numpy.random") or getattr(holder, "__name__", "") == "numpy.random":
        return _by_rule(DRAWS.get(method), path, call, names)
    made = resolved(ast.unparse(call.func.func), names) if call and isinstance(call.func, ast.Call) else None
    known = made if isinstance(made, type) else type(called)
    if known.__module__.startswith(("numpy", "scipy")) and known.__name__ in CALLED:
        return _by_rule(CALLED[known.__name__], path, call, names, owner=path)
    try:
        module, name = called.__module__, called.__name__
    except Exception:  # an object's own way of giving attributes
        return None
    if type(name) is not str:
        return None
    root, _, package = str(module).partition(".")
    package = package.partition(".")[0]
    place = f"scipy.{package}" if root == "scipy" else root
    if place == "numpy" and name in _NUMPY:
        return _written(_NUMPY[name], path)
    found = _by_rule(RULES.get(place, {}).get(name), path, call, names) or _same(place, name, path, call)
    if not found and place == "numpy" and call is not None and ours(name):
        found = _of_list(path, call, names)
    if found or root != "scipy":
        return found
    if name in DISPATCHED.get(place, "").split() and not os.environ.get("SCIPY_ARRAY_API"):
        return f"set SCIPY_ARRAY_API=1 in the environment, with which {path} computes on tensors"
    return f"use {PACKAGES.get(package, 'eo.custom_vjp around it')}, in place of {path} alone"


def _by_rule(
    rule: str | None, path: str, call: ast.Call | None, names: dict[str, Any], owner: str = ""
) -> str | None:
    """Return what a rule for a foreign function says of a call of it."""
    if rule is None:
        return None
    given = {"owner": owner or path.rpartition(".")[0] or path, "path": path}
    text = applied(rule, call, given, lambda part: resolved(part, names))
    if not text.startswith("write "):
        return text or None
    theirs = path if call is None else ast.unparse(call)
    return f"{text} in place of {theirs if len(theirs) <= QUOTED // 2 else path}"


def _same(place: str, name: str, path: str, call: ast.Call | None) -> str | None:
    """Return where a function is that takes the same arguments, if it takes those of a call."""
    for namespace, functions in SAME.get(place, {}).items():
        if name in functions.split():
            ours = f"{namespace}.{name}"
            function = operator.attrgetter(ours.removeprefix("eo."))(sys.modules["everyo"])
            taken = inspect.signature(function).parameters
            strange = [k for k in call.keywords if k.arg not in taken] if call else []
            if call is None or not strange:
                return _written(ours, path)
            kept = [k for k in call.keywords if k not in strange]
            written = ast.unparse(ast.Call(ast.Name(ours), call.args, kept))
            same = all(k.arg in MANNERS for k in strange)
            return _written(written, ast.unparse(call)) if same else None
    return None


def _of_list(path: str, call: ast.Call, names: dict[str, Any]) -> str | None:
    """Return a call of NumPy's function with a tensor in place of a list of them, which it does not see."""
    if not call.args:
        return None
    given = call.args[0]
    text = ast.unparse(given)
    literal = isinstance(given, (ast.List, ast.Tuple, ast.ListComp))
    if not literal and not isinstance(resolved(text, names), (list, tuple)):
        return None
    made = ast.parse(f"eo.asarray({text})", mode="eval").body
    written = ast.unparse(ast.Call(call.func, [made, *call.args[1:]], call.keywords))
    if len(written) > QUOTED // 2:
        return f"write {path}(eo.asarray(list)) in place of {path}(list)"
    return f"write {written} in place of {ast.unparse(call)}"


def _of_sparse(path: str, matrix: Any) -> str | None:
    """Return what to write for a product with a sparse matrix of SciPy."""
    if not type(matrix).__module__.startswith("scipy.sparse"):
        return None
    return (
        f"write eo.asarray({path}.toarray()) in place of {path}; a large one times a vector x is, with "
        f"c = {path}.tocoo(), eo.segment_sum(c.data * x[c.col], c.row, c.shape[0])"
    )


def ours(name: str) -> str | None:
    """Return where EveryO has a function of this name."""
    everyo = sys.modules["everyo"]
    for namespace in _NAMESPACES:
        module = getattr(everyo, namespace) if namespace else everyo
        if hasattr(module, name):
            return f"eo.{namespace}.{name}" if namespace else f"eo.{name}"
    return None


def help_on(name: str) -> str:
    """Return where the shapes and parameters of an operation are described."""
    public = ours(name)
    return f"see help({public})" if public else "compare them with what the function's docstring asks for"


def _written(found: str | None, theirs: str) -> str | None:
    return None if found is None else f"write {found} in place of {theirs}"
