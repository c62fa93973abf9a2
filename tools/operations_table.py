"""Write docs/operations.md: every public function, and every primitive with its rules, from the registry.

``python tools/operations_table.py`` writes the page, ``--check`` only says whether it is up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import everyo
from everyo.compiler.lowering import LOWERINGS
from everyo.compiler.lowering.pairs import PAIRS
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, rule_arguments
from everyo.core.registry import primitives
from everyo.core.tensor import wrap
from everyo.errors import DTypeError, UnsupportedOperationError
from everyo.testing.point import Point, pull
from everyo.testing.primitives import Call

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"

HEAD = """# Operations and their rules

Made from the registry by `tools/operations_table.py`: the public functions, the operations of the same names
with their rules, and last those that stand behind other functions.

## Public functions

Those whose name is that of an operation below apply it, with the preparation that their docstrings describe.
All others are compositions of operations, or make arrays; their derivatives, batches and compiled forms are
those of the operations.

| namespace | topic | functions |
| --- | --- | --- |
"""
RULES = """
## Operations with a public name

Every one with its family, how its derivatives in reverse (vjp) and forward mode (jvp) are given, the second
order, how `vmap` batches it, what a node of it keeps for the backward pass, and what a compiled function
makes of it: machine code of its own, or a call of the eager kernel, perhaps for complex numbers alone.

Derivatives of any order follow, because rules are written in operations. The second order is found on each
operation's samples: "by the rules" where the gradient is recorded again, and the suite compares the gradient
of that gradient, and that of the tangents, with differences; "zero" where the gradient depends on no input.

"""
INTERNAL = """
## Operations behind them

Into which public functions and rules resolve; they are no part of the interface.

"""
COLUMNS = """| operation | family | vjp | jvp | second order | batch | kept for the backward pass | compiled |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
NAMESPACES = ("everyo", "everyo.linalg", "everyo.fft", "everyo.special", "everyo.random")


def _rule(rule: object, missing: str) -> str:
    if rule is None:
        return f"none: {missing}"
    if rule is LINEAR:
        return "itself"
    if rule is BILINEAR:
        return "product rule"
    return "joint rule" if callable(rule) else "a rule for each input"


def _second_order(primitive: Primitive) -> str:
    """Return what becomes of a gradient that is differentiated again, on any sample of the primitive."""
    if primitive.vjp is None or primitive.samples is None:
        return ""
    calls = (
        Call(primitive, sample, dtype)
        for dtype in ("float64", "complex128")
        for sample in primitive.samples()
    )
    with np.errstate(all="ignore"):
        return "by the rules" if any(map(_records_its_gradient, calls)) else "zero"


def _records_its_gradient(call: Call) -> bool:
    if not call.wrt:
        return False
    try:
        point = Point(call, call.points, call.primitive.name)
        leaves, results = point.recorded()
        gradients = pull(results, leaves, [wrap(w) for w in point.weights(0)], True)
    except (DTypeError, UnsupportedOperationError):  # it does not take complex numbers
        return False
    return any(g.requires_grad for g in gradients)


def _kept(primitive: Primitive) -> str:
    if primitive.vjp is None:
        return ""
    rules = (
        [primitive.vjp] if callable(primitive.vjp) else [rule for rule in primitive.vjp if rule is not None]
    )
    names = dict.fromkeys(name for rule in rules for name in rule_arguments(rule))
    kept = [n for n in names if n in (*primitive.input_names, "out")]
    return ", ".join(kept) or "nothing"


def _compiled(primitive: Primitive) -> str:
    """Return what a compiled function makes of a primitive, of real numbers and of complex ones."""
    if primitive.name not in LOWERINGS:
        return "call"
    by_call = primitive.name not in PAIRS and _takes_complex(primitive)
    return "native; of complex numbers a call" if by_call else "native"


def _takes_complex(primitive: Primitive) -> bool:
    """Whether any sample of the primitive may be complex."""
    with np.errstate(all="ignore"):
        for sample in primitive.samples() if primitive.samples is not None else ():
            call = Call(primitive, sample, "complex128")
            if not any(getattr(x, "dtype", np.dtype(bool)).kind == "c" for x in call.arrays):
                continue
            try:
                primitive(*map(wrap, call.arrays), **call.params)
            except (DTypeError, UnsupportedOperationError):
                continue
            return True
    return False


def page() -> str:
    """Return the page's text."""
    functions = {namespace: _functions(namespace) for namespace in NAMESPACES}
    listed = {name for topics in functions.values() for names in topics.values() for name in names}
    rows: dict[bool, list[str]] = {True: [], False: []}
    for name, primitive in sorted(primitives().items()):
        batch = primitive.batch.__name__.strip("_").replace("_", " ") if primitive.batch else "none"
        batch = {"rule": "shifts axes", "refused": "refused: the shape depends on values"}.get(batch, batch)
        cells = (
            f"`{name}`", primitive.family, _rule(primitive.vjp, primitive.missing),
            _rule(primitive.jvp, primitive.missing), _second_order(primitive), batch,
            _kept(primitive), _compiled(primitive),
        )  # fmt: skip
        rows[name in listed].append("| " + " | ".join(cells) + " |\n")
    found = [
        f"| `{namespace}` | {topic} | {', '.join(f'`{name}`' for name in names)} |\n"
        for namespace, topics in functions.items()
        for topic, names in sorted(topics.items())
    ]
    return "".join([HEAD, *found, RULES, COLUMNS, *rows[True], INTERNAL, COLUMNS, *rows[False]])


def _functions(namespace: str) -> dict[str, list[str]]:
    """Return the names of a namespace's functions that are operations, by the topic of their modules."""
    module = everyo if namespace == "everyo" else getattr(everyo, namespace.partition(".")[2])
    topics: dict[str, list[str]] = {}
    for name in sorted(getattr(module, "__all__", dir(module))):
        function = getattr(module, name)
        home = getattr(function, "__module__", None) or ""
        if name.startswith("_") or isinstance(function, type) or not callable(function):
            continue
        if home.startswith("everyo.ops"):
            topic = (sys.modules[home].__doc__ or "").partition("\n")[0]
            topics.setdefault(topic, []).append(name)
    return topics


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="do not write; exit 1 if the page is out of date"
    )
    if parser.parse_args().check:
        return int(not PAGE.exists() or PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
