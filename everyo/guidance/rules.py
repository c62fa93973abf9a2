"""A foreign call as one of EveryO: the rules of `everyo.guidance.foreign` with its arguments."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 60  # characters of an argument that a remedy repeats
# Keywords of SciPy that say how a result is computed, not which.
MANNERS = frozenset(
    ("assume_a", "check_finite", "lapack_driver", "overwrite_a", "overwrite_b", "overwrite_x", "plan")
    + ("workers",)
)
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.In: lambda a, b: a in b,
}  # fmt: skip


@functools.cache
def _rule(text: str) -> tuple[inspect.Signature, ast.expr, str]:
    """Return the parameters, the expression and the note of a rule ``x, y=1: f(y, x)  # note``."""
    code, _, note = text.partition("  # ")
    source = f"lambda {code}"
    rule = ast.parse(source, mode="eval").body
    assert isinstance(rule, ast.Lambda)
    return inspect.signature(eval(source)), rule.body, note


def applied(text: str, call: ast.Call | None, given: Mapping[str, str], known: Callable[[str], Any]) -> str:
    """Return what a rule says of a call, or an empty string where their arguments do not fit.

    Parameters
    ----------
    text : str
        The rule: parameters as those of the foreign function, and what computes the same. Where that is a
        string it is a sentence, with the arguments in braces.
    call : ast.Call, optional
        The call; without it the parameters stand for its arguments.
    given : mapping
        Other names of the rule: what they stand for.
    known : function
        Returns the value of an expression in the user's code, or None.
    """
    signature, body, note = _rule(text)
    if call is None:
        names = {n: p for n, p in signature.parameters.items() if p.default is p.empty}
        found: dict[str, Any] = {name: ast.Name(name) for name in names}
        arguments = inspect.BoundArguments(signature, found)
    else:
        keywords = {
            k.arg: k.value for k in call.keywords if k.arg not in MANNERS or k.arg in signature.parameters
        }
        if None in keywords or any(isinstance(x, ast.Starred) for x in call.args):
            return ""
        try:
            arguments = signature.bind(*call.args, **keywords)  # type: ignore[arg-type] # None is no key
        except TypeError:
            return ""
    arguments.apply_defaults()
    values = {name: _node(value) for name, value in arguments.arguments.items()}
    values |= {name: ast.parse(part, mode="eval").body for name, part in given.items()}
    written = _Substitution(values, known).visit(copy.deepcopy(body))
    if isinstance(written, ast.Constant) and isinstance(written.value, str):
        return written.value.format(**{name: ast.unparse(value) for name, value in values.items()})
    return f"write {ast.unparse(written)}" + (f" ({note})" if note else "")


def _node(value: Any) -> ast.expr:
    """Return an argument or a default as part of an expression."""
    if isinstance(value, tuple):  # of ``*args``
        return ast.Tuple([_node(x) for x in value], ast.Load())
    return value if isinstance(value, ast.expr) else ast.Constant(value)


class _Substitution(ast.NodeTransformer):
    """Puts arguments in the place of parameters, and computes what is known without running a program."""

    def __init__(self, values: Mapping[str, ast.expr], known: Callable[[str], Any]) -> None:
        self.values, self.known = values, known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.values.get(node.id)
        if value is None:
            return node
        long = not isinstance(value, (ast.Tuple, ast.List)) and len(ast.unparse(value)) > LONGEST
        return node if long else copy.deepcopy(value)

    def visit_Starred(self, node: ast.Starred) -> Any:
        self.generic_visit(node)
        return node.value.elts if isinstance(node.value, ast.Tuple) else node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return self.visit(node.body if test.value else node.orelse)
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
            return ast.Constant(not node.operand.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        left, right, kind = node.left, node.comparators[0], type(node.ops[0])
        if isinstance(left, ast.Constant) and kind in _COMPARED:
            try:
                return ast.Constant(_COMPARED[kind](left.value, ast.literal_eval(right)))
            except ValueError:
                return node
        if kind is ast.Is:  # an argument that is given is not None
            return ast.Constant(False)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        owner, index = node.value, node.slice
        if isinstance(owner, (ast.Tuple, ast.List)) and isinstance(index, ast.Constant):
            place = index.value
            return owner.elts[place] if isinstance(place, int) else node
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = getattr(node.left, "value", None), getattr(node.right, "value", None)
        neutral = 0 if isinstance(node.op, (ast.Add, ast.Sub)) else 1
        if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            return node
        if type(right) in (int, float) and right == neutral:
            return node.left
        one_sided = isinstance(node.op, (ast.Sub, ast.Div))
        return node.right if type(left) in (int, float) and left == neutral and not one_sided else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Compute `shape_of(a, b)`, the shape of both together, and `plain(x)`: a number of Python's."""
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "shape_of":
            return self._shape(node.args)
        if name == "plain":
            (argument,) = node.args
            value = None if isinstance(argument, ast.Constant) else self.known(ast.unparse(argument))
            return ast.Constant(
                isinstance(argument, ast.Constant) or isinstance(value, (int, float, complex))
            )
        if node.args and isinstance(node.args[-1], ast.Constant) and node.args[-1].value is None:
            node.args.pop()
        return node

    def _shape(self, arguments: list[ast.expr]) -> ast.expr:
        shaped = [a for a in arguments if not self._is_number(a)]
        shapes: list[ast.expr] = [ast.parse(f"np.shape({ast.unparse(a)})", mode="eval").body for a in shaped]
        if len(shapes) > 1:
            return ast.Call(ast.parse("np.broadcast_shapes", mode="eval").body, shapes, [])
        return shapes[0] if shapes else ast.Constant(None)

    def _is_number(self, argument: ast.expr) -> bool:
        """Whether an argument surely has no axes."""
        if isinstance(argument, ast.Constant):
            return True
        if isinstance(argument, ast.Subscript) and isinstance(argument.slice, ast.Constant):
            owner = self.known(ast.unparse(argument.value))
            return type(argument.slice.value) is int and getattr(owner, "ndim", 0) == 1
        value = self.known(ast.unparse(argument))
        return value is not None and getattr(value, "ndim", isinstance(value, (list, tuple))) == 0
