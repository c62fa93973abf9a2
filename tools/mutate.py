"""Plant a fault in each derivative rule and demand that the checks notice: ``make mutate``.

    python tools/mutate.py [PRIMITIVE...] [--quick] [--list]

Every rule of every primitive (each input's vjp, each jvp) is replaced, one fault at a time:

* its result scaled by 1.001, and negated (for a joint rule each cotangent by itself);
* two operands of the same kind swapped, a term or a factor dropped, a sign or the operands of a
  subtraction, division, power or matrix product turned round, a function taken away: in the syntax
  tree of the rule and of the helper functions that it calls.

Then the checks of `everyo.testing.primitives`, the suite's own, run on the primitive's samples; what
survives them must be caught by ``tests/test_hard_points.py``, or be explained in `EXPLAINED`.
Otherwise the exit status is 1: a survivor is a missing test.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import inspect
import io
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import everyo  # noqa: F401 - fills the registry
from everyo.core.cotangents import Scattered
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, rule_arguments
from everyo.core.registry import primitives
from everyo.testing.primitives import Call, check_primitive

ROOT = Path(__file__).resolve().parent.parent
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

# Survivors that no test can catch, and why: (primitive or "*", function, fault) -> reason.
EXPLAINED: dict[tuple[str, str, str], str] = {}


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


# ---- planting and checking


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


@contextlib.contextmanager
def planted(primitive: Primitive, fault: Fault) -> Iterator[None]:
    """Put a fault in its place for the length of a block."""
    original = getattr(primitive, fault.mode)
    wrong: Any = fault.rule
    if fault.slot is not None:
        wrong = tuple(fault.rule if i == fault.slot else r for i, r in enumerate(original))
    setattr(primitive, fault.mode, wrong)
    primitive.plans.clear()
    try:
        yield
    finally:
        setattr(primitive, fault.mode, original)
        primitive.plans.clear()


CHECKS = [("float64", 1), ("float64", 2), ("complex128", 2), ("float32", 1)]


def outcome(primitive: Primitive) -> str:
    """Return what the checks of a primitive say; they stop at the first failure."""
    said = []
    for dtype, orders in CHECKS:
        try:
            said.append(str(check_primitive(primitive, dtype=dtype, orders=orders)))
        except Exception as error:
            return f"{dtype}, order {orders}: {type(error).__name__}: {error}"
    return " ".join(said)


def hard_points_notice() -> bool:
    """Whether ``tests/test_hard_points.py`` fails."""
    import pytest

    silence = io.StringIO()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT)]
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        return pytest.main([*options, str(ROOT / "tests" / "test_hard_points.py")]) != 0


class Tally:
    """What became of the planted faults."""

    def __init__(self) -> None:
        self.killed = 0
        self.explained: list[str] = []
        self.survivors: list[tuple[Primitive, Fault]] = []
        self.broken: list[str] = []
        self.shared: list[str] = []

    @property
    def planted(self) -> int:
        """All of them."""
        return self.killed + len(self.explained) + len(self.survivors)


def explanation(primitive: Primitive, fault: Fault) -> str | None:
    """Return why no test can catch a fault, if `EXPLAINED` says so."""
    for name in (primitive.name, "*"):
        reason = EXPLAINED.get((name, fault.function, fault.description))
        if reason:
            return reason
    return None


def mutate(primitive: Primitive, tally: Tally) -> None:
    """Plant every fault of a primitive in turn."""
    if primitive.jvp is LINEAR or primitive.jvp is BILINEAR:
        tally.shared.append(primitive.name)
    wanted = outcome(primitive)
    if set(wanted.split()) - {"True", "False"}:
        tally.broken.append(f"{primitive.name}: {wanted}")
        return
    for fault in faults(primitive):
        with planted(primitive, fault):
            noticed = outcome(primitive) != wanted
        if noticed:
            tally.killed += 1
        elif explanation(primitive, fault):
            tally.explained.append(f"{primitive.name}, {fault} [{explanation(primitive, fault)}]")
        else:
            tally.survivors.append((primitive, fault))


def try_hard_points(tally: Tally) -> None:
    """Give what survived the samples to the hard points."""
    if not tally.survivors or hard_points_notice():
        return
    remaining = []
    for primitive, fault in tally.survivors:
        with planted(primitive, fault):
            noticed = hard_points_notice()
        if noticed:
            tally.killed += 1
        else:
            remaining.append((primitive, fault))
    tally.survivors = remaining


def main(arguments: Sequence[str]) -> int:
    """Run the mutation of the primitives named, or of all; return the exit status."""
    parser = argparse.ArgumentParser(
        description="Plant a fault in each derivative rule; the checks must notice."
    )
    parser.add_argument("names", nargs="*", help="primitives; all by default")
    parser.add_argument("--quick", action="store_true", help="do not try survivors on the hard points")
    parser.add_argument("--list", action="store_true", help="show every fault and plant none")
    options = parser.parse_args(arguments)
    known = primitives()
    chosen = [known[name] for name in options.names or sorted(known)]
    if options.list:
        for primitive in chosen:
            for fault in faults(primitive):
                print(f"{primitive.name}, {fault}")
        return 0
    tally, started = Tally(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for primitive in chosen:
            mutate(primitive, tally)
        if not options.quick:
            try_hard_points(tally)
    return report(tally, time.perf_counter() - started)


def report(tally: Tally, seconds: float) -> int:
    """Print what became of the faults; return the exit status."""
    if tally.shared:
        print(
            f"skipped: jvp of {len(tally.shared)} linear and bilinear primitives is the operation itself,\n"
            f"  in engine code that they share: {', '.join(tally.shared)}"
        )
    for text in tally.explained:
        print(f"explained: {text}")
    for primitive, fault in tally.survivors:
        print(f"SURVIVED: {primitive.name}, {fault}\n  in {fault.function}")
    for text in tally.broken:
        print(f"BROKEN without any fault: {text}")
    countable = tally.planted - len(tally.explained)
    rate = 100 * tally.killed / countable if countable else 100.0
    print(
        f"{tally.planted} faults planted, {tally.killed} caught, {len(tally.explained)} explained, "
        f"{len(tally.survivors)} survived: kill rate {rate:.1f}% in {seconds:.0f} s"
    )
    return 1 if tally.survivors or tally.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
