"""The faults that `mutate` plants: wrong versions of a primitive's rules, one at a time."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from everyo.core.cotangents import Scattered
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, rule_arguments
from everyo.testing.primitives import Call

Rule = Callable[..., Any]

COMMUTATIVE = frozenset(
    {
        "add",
        "multiply",
        "multiply_absorbing",
        "maximum",
        "minimum",
        "hypot",
        "logaddexp",
        "equal",
        "not_equal",
    }
    | {"logical_and", "logical_or", "logical_xor"}
)


class Fault(NamedTuple):
    """One planted fault: `rule` takes the place of the rule in `slot` of ``primitive.<mode>``."""

    mode: str
    slot: int | None
    function: str
    description: str
    rule: Rule

    def __str__(self) -> str:
        where = self.mode if self.slot is None else f"{self.mode} of input {self.slot}"
        return f"{where}: {self.description}"


def faults(primitive: Primitive) -> Iterator[Fault]:
    """Yield every fault that can be planted in a primitive."""
    for mode in ("vjp", "jvp"):
        rules = getattr(primitive, mode)
        if rules is None or rules is LINEAR or rules is BILINEAR:
            continue
        joint = callable(rules)
        for slot, rule in enumerate([rules] if joint else rules):
            if rule is None:
                continue
            positions = result_positions(primitive, mode) if joint else [None]
            for function, described, wrong in (
                *result_faults(rule, positions),
                *syntax_faults(primitive, rule),
            ):
                yield Fault(mode, None if joint else slot, function, described, wrong)


def result_positions(primitive: Primitive, mode: str) -> list[int | None]:
    """Return the positions of the results of a joint rule: the differentiated inputs of its samples."""
    if mode == "jvp":
        return [None]
    return sorted({i for s in primitive.samples() for i in Call(primitive, s, "float64").wrt})  # type: ignore[misc]


# ---- faults in a rule's result


def distorted(rule: Rule, change: Callable[[Any], Any], position: int | None) -> Rule:
    """Return `rule` with its result (or one of its results) changed; its signature stays."""

    @functools.wraps(rule)
    def wrong(*arguments: Any) -> Any:
        result = rule(*arguments)
        if position is None:
            return changed(result, change)
        return [changed(r, change) if k == position else r for k, r in enumerate(result)]

    return wrong


def changed(result: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to a cotangent, a tangent or a tuple of them."""
    if result is None:
        return None
    if isinstance(result, Scattered):
        other = copy.copy(result)
        other.values = [change(v) for v in result.values]
        return other
    if isinstance(result, (tuple, list)):
        return tuple(changed(r, change) for r in result)
    return change(result)


def result_faults(rule: Rule, positions: Sequence[int | None]) -> Iterator[tuple[str, str, Rule]]:
    """Yield the faults that need no syntax tree."""
    changes = {"scale by 1.001": lambda v: v * 1.001, "negate": lambda v: -v}
    name = getattr(rule, "__qualname__", str(rule))
    if is_zero(rule):

        @functools.wraps(rule)
        def leaking(g: Any, *others: Any) -> Any:
            return rule(g, *others) + 0.001 * g

        yield name, "add 0.001 of the cotangent", leaking
        return
    for position in positions:
        where = "" if position is None else f" result {position}"
        for change, function in changes.items():
            yield name, change + where, distorted(rule, function, position)


def is_zero(rule: Rule) -> bool:
    """Whether a rule is a lambda that returns zeros whatever comes in."""
    tree = syntax(rule) if isinstance(rule, types.FunctionType) else None
    return isinstance(tree, ast.Lambda) and ast.unparse(tree.body).startswith("op.zeros_like(")


# ---- faults in a rule's source


@functools.cache
def module_tree(path: str) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def syntax(function: types.FunctionType) -> ast.Lambda | ast.FunctionDef | None:
    """Return the syntax tree of a function or lambda; None if its source cannot be found."""
    code = function.__code__
    path = inspect.getsourcefile(function)
    found = []
    for node in ast.walk(module_tree(path)) if path else ():
        if not isinstance(node, (ast.Lambda, ast.FunctionDef)):
            continue
        decorators = getattr(node, "decorator_list", [])
        line = min([node.lineno, *(d.lineno for d in decorators)])
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if line == code.co_firstlineno and names == list(code.co_varnames[: len(names)]):
            found.append(node)
    if len(found) > 1:  # several lambdas on one line: the columns tell them apart
        spans = set(code.co_positions())
        found = [n for n in found if isinstance(n, ast.Lambda) and span(n.body) in spans]
    return found[0] if found else None


def span(node: ast.expr) -> tuple[int | None, ...]:
    """Return where an expression stands, as code objects note it."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def built(function: types.FunctionType, node: Any, **replaced: Any) -> types.FunctionType:
    """Return the function that `node` describes, in the surroundings of `function`."""
    free = function.__code__.co_freevars
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.Return(node)]
    else:
        plain = copy.deepcopy(node)
        plain.decorator_list, plain.returns = [], None
        body = [plain, ast.Return(ast.Name(node.name, ast.Load()))]
    arguments = ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, [])
    maker = ast.FunctionDef("make", arguments, body, [], None, None)
    if sys.version_info >= (3, 12):
        maker.type_params = []
    module = ast.fix_missing_locations(ast.Module([maker], []))
    namespace: dict[str, Any] = {}
    exec(compile(module, "<mutant>", "exec"), {**function.__globals__, **replaced}, namespace)
    return namespace["make"](*(cell.cell_contents for cell in function.__closure__ or ()))


def alternatives(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the wrong expressions that may stand in the place of `node`."""
    if isinstance(node, ast.BinOp):
        left, right, kind = node.left, node.right, node.op
        minus = ast.UnaryOp(ast.USub(), right)
        if isinstance(kind, ast.Add):
            yield from (left, right, ast.BinOp(left, ast.Sub(), right))
        elif isinstance(kind, ast.Sub):
            yield from (left, minus, ast.BinOp(left, ast.Add(), right), ast.BinOp(right, kind, left))
        elif isinstance(kind, ast.Mult):
            yield from (left, right)
        elif isinstance(kind, (ast.Div, ast.Pow)):
            yield from (left, ast.BinOp(right, kind, left))
        elif isinstance(kind, ast.MatMult):
            yield ast.BinOp(right, kind, left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Call) and is_operation(node.func) and node.args:
        yield from (a for a in node.args if not isinstance(a, (ast.Constant, ast.Starred)))
        ordered = node.func.attr not in COMMUTATIVE  # type: ignore[attr-defined]
        if ordered and len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args):
            yield ast.Call(node.func, node.args[::-1], node.keywords)


def is_operation(function: ast.expr) -> bool:
    """Whether this is ``op.something``."""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "op"
    )


class Substitute(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


class Exchange(ast.NodeTransformer):
    """Exchanges two names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def body_of(node: ast.Lambda | ast.FunctionDef) -> list[ast.AST]:
    """Return all nodes that compute something, in a fixed order."""
    parts = [node.body] if isinstance(node, ast.Lambda) else node.body
    return [found for part in parts for found in ast.walk(part)]


def source_faults(function: types.FunctionType, arrays: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield each description and faulty syntax tree of a function; `arrays` are names of one kind."""
    tree = syntax(function)
    if tree is None:
        return
    size = len(body_of(tree))
    for place in range(size):
        node = body_of(tree)[place]
        for number, _ in enumerate(alternatives(node)):
            mutant = copy.deepcopy(tree)
            old = body_of(mutant)[place]
            new = list(alternatives(old))[number]
            described = f"{ast.unparse(old)}  ->  {ast.unparse(new)}"
            yield described, Substitute(old, copy.deepcopy(new)).visit(mutant)
    used = [n for n in arrays if any(isinstance(b, ast.Name) and b.id == n for b in body_of(tree))]
    for i, first in enumerate(used):
        for second in used[i + 1 :]:
            mutant = copy.deepcopy(tree)
            exchange = Exchange({first: second, second: first})
            if isinstance(mutant, ast.Lambda):
                mutant.body = exchange.visit(mutant.body)
            else:
                mutant.body = [exchange.visit(statement) for statement in mutant.body]
            yield f"exchange {first} and {second}", mutant


def helpers(rule: types.FunctionType) -> dict[str, types.FunctionType]:
    """Return the functions of `everyo.ops` that a rule calls by name."""
    tree = syntax(rule)
    names = {n.id for n in body_of(tree) if isinstance(n, ast.Name)} if tree is not None else set()
    return {
        name: value
        for name in sorted(names)
        if isinstance(value := rule.__globals__.get(name), types.FunctionType)
        and value.__module__.startswith("everyo.ops")
        and not hasattr(value, "primitive")
    }


def syntax_faults(primitive: Primitive, rule: Rule) -> Iterator[tuple[str, str, Rule]]:
    """Yield function, description and rule for each fault in the source of a rule or its helpers."""
    if not isinstance(rule, types.FunctionType):
        return
    arrays = (
        []
        if primitive.variadic
        else [n for n in rule_arguments(rule) if n in (*primitive.input_names, "out")]
    )
    for described, tree in source_faults(rule, arrays):
        yield rule.__qualname__, described, built(rule, tree)
    for name, helper in helpers(rule).items():
        for described, tree in source_faults(helper, []):
            wrong = built(helper, tree)
            own = syntax(rule)
            yield helper.__qualname__, f"{name}: {described}", built(rule, own, **{name: wrong})
