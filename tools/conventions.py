"""Write docs/conventions.md: what EveryO and others answer at kinks, ties, singular points and of nothing.

``python tools/conventions.py`` writes the page from tests/data/conventions.json, ``--check`` only says
whether it is up to date. ``python tools/conventions.py --ask pytorch`` (or jax, autograd), run where that
package is installed, evaluates the rows there and stores the answers. EveryO's own are written by hand, from
what the conventions say, and tests/test_conventions.py holds EveryO to them.

A row has an expression in NumPy's spelling, a point, and the gradients of the sum of the elements with
respect to the names in ``wrt`` (all by default); with ``"order": 2``, those of the sum of the gradient.
``calls`` has a peer's own spelling, or null where it has no such function; ``batched`` is the expression
along the last axes; ``holds`` says what else the row holds for (``elementwise`` functions, perhaps in ``x``
alone, ``complex`` operands) and what not (``reverse``: not in forward mode; ``eager``: not compiled). A
behaviour has statements for each engine, of which the last is an expression: its value is the answer.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
PAGE, DATA = ROOT / "docs" / "conventions.md", ROOT / "tests" / "data" / "conventions.json"
PEERS = {"pytorch": "PyTorch", "jax": "JAX", "autograd": "autograd"}
_PACKAGES = {"pytorch": "torch", "jax": "jax", "autograd": "autograd"}

HEAD = """# Conventions where the mathematics leaves a choice

Made by `tools/conventions.py` from `tests/data/conventions.json`. Each row is a test, for every dtype, shape
and layout that it makes sense for. {versions} answered the same question: the gradients of the sum of the
expression's elements with respect to each operand, or to those named behind it. "f =" is the value, "twice"
asks for the gradients of the sum of the gradient, and a dash means that there is no such function or no
derivative of it. Answers that differ from EveryO's are bold. JAX computed gradients with `jax_enable_x64`,
and dtypes without it. The last rows are behaviours: statements and what they come to.

| convention | call | EveryO | PyTorch | JAX | autograd | why EveryO differs |
| --- | --- | --- | --- | --- | --- | --- |
"""


def load() -> dict[str, Any]:
    """Return the data: the versions of the peers, the rows and the behaviours."""
    data: dict[str, Any] = json.loads(DATA.read_text())
    return data


def numbers(value: Any, dtype: str) -> Any:
    """Return JSON numbers as an array; NaN, infinities and complex numbers are strings there."""
    found = np.array(value)
    if found.dtype.kind == "i" and found.size:
        return found
    parse: Callable[[Any], complex] = complex if np.dtype(dtype).kind == "c" else float
    return np.array([parse(v) for v in found.ravel()], dtype).reshape(found.shape)


def point(row: dict[str, Any]) -> dict[str, Any]:
    """Return the operands of a row as arrays, by name."""
    return {name: numbers(v, row.get("dtype", "float64")) for name, v in row["point"].items()}


def wrt(row: dict[str, Any]) -> list[str]:
    """Return the names of the operands that the gradients of a row are for."""
    return list(row.get("wrt", row["point"]))


def call(row: dict[str, Any], peer: str) -> str | None:
    """Return a row's expression as a peer spells it, or None."""
    own = row.get("calls", {})
    if peer in own:
        return own[peer]
    return row["expr"].replace("np.", "torch.") if peer == "pytorch" else row["expr"]


def differs(row: dict[str, Any], peer: str) -> bool:
    """Whether a peer gives another answer than EveryO; not where it has none."""
    answer = row["peers"][peer]
    if answer is None:
        return False
    if "answer" in row:
        return bool(answer != row["answer"])
    if "error" in answer or row["grads"] == "ShapeError":
        return ("error" in answer) != (row["grads"] == "ShapeError")
    dtype = row.get("dtype", "float64")
    pairs = [] if row["grads"] is None else list(zip(row["grads"], answer["grads"], strict=True))
    if "value" in row:
        pairs.append((row["value"], answer["value"]))
    return not all(_equal(numbers(a, dtype), numbers(b, dtype)) for a, b in pairs)


def _equal(a: Any, b: Any) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-12, equal_nan=True)


# ---- asking


def ask(peer: str) -> None:
    """Store a peer's answers to all rows."""
    data = load()
    derivative = _DERIVATIVES[peer]()
    for row in data["rows"]:
        spelled = call(row, peer)
        row.setdefault("peers", {})[peer] = spelled and _answer(derivative, row, spelled)
    scope = _SCOPES[peer]()
    for behaviour in data["behaviours"]:
        code = behaviour["code"][peer]
        behaviour.setdefault("peers", {})[peer] = code and answer(code, scope)
    data["versions"][peer] = importlib.metadata.version(_PACKAGES[peer])
    write(data)


def write(data: dict[str, Any]) -> None:
    """Store the data, one row on a line."""
    rows, behaviours = (",\n".join(map(json.dumps, data[key])) for key in ("rows", "behaviours"))
    versions = json.dumps(data["versions"])
    DATA.write_text(f'{{"versions": {versions},\n"rows": [\n{rows}\n],\n"behaviours": [\n{behaviours}\n]}}\n')


def answer(code: str, scope: dict[str, Any]) -> str:
    """Return what statements come to, as text; "an error" if they raise."""
    *statements, last = code.split("; ")
    names = {**scope, "numpy": np}
    try:
        exec("\n".join(statements), names)  # our own data
        return str(eval(last, names)).removeprefix("torch.")
    except SyntaxError:  # the last one is no expression: it is there for its error
        try:
            exec(last, names)
        except Exception:
            return "an error"
        return "no error"
    except Exception:
        return "an error"


def _answer(derivative: Any, row: dict[str, Any], spelled: str) -> Any:
    try:
        value, gradients = derivative(spelled, point(row), wrt(row), row.get("order", 1))
    except (AttributeError, NotImplementedError):
        return None
    except Exception as error:  # whatever a peer raises is its answer
        return None if "is not implemented" in str(error) else {"error": type(error).__name__}
    return {"value": _plain(value), "grads": [_plain(g) for g in gradients]}


def _plain(array: Any) -> Any:
    """Return an array as JSON numbers, as `numbers` reads them."""
    array = np.asarray(array)
    if array.dtype.kind == "c":
        return np.vectorize(lambda z: str(complex(z)).strip("()"), otypes=[object])(array).tolist()
    if array.size == 0:
        return array.tolist()
    return np.vectorize(_number, otypes=[object])(array).tolist()


def _number(x: Any) -> Any:
    return float(f"{x + 0.0:.15g}") if np.isfinite(x) else str(float(x))


def _pytorch() -> Callable[..., Any]:
    import torch

    def derivative(spelled: str, given: dict[str, Any], names: list[str], order: int) -> Any:
        tensors = {k: torch.tensor(v, requires_grad=k in names) for k, v in given.items()}
        value = out = eval(spelled, {"torch": torch, **tensors})  # our own data
        leaves = [tensors[k] for k in names]
        for again in range(order, 0, -1):
            total = sum(o.sum() for o in out) if isinstance(out, tuple) else out.sum()
            out = torch.autograd.grad(total, leaves, create_graph=again > 1, allow_unused=True)
        gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, out, strict=True)]
        return value.detach().numpy(), [g.detach().numpy() for g in gradients]

    return derivative


def _functional(grad: Any, scope: dict[str, Any], array: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return how a peer whose derivatives are functions of functions is asked."""
    np_ = scope["np"]

    def derivative(spelled: str, given: dict[str, Any], names: list[str], order: int) -> Any:
        arrays = {k: array(v) for k, v in given.items()}

        def evaluate(*args: Any) -> Any:
            return eval(spelled, {**scope, **arrays, **dict(zip(names, args, strict=True))})  # our own data

        def summed(f: Any) -> Any:
            return lambda *args: np_.sum(f(*args))

        places = tuple(range(len(names)))
        leaves = [arrays[k] for k in names]
        f = evaluate
        for _ in range(order - 1):
            f = grad(summed(f), 0)
        return evaluate(*leaves), [grad(summed(f), i)(*leaves) for i in places]

    return derivative


def _jax() -> Callable[..., Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    return _functional(jax.grad, {"np": jax.numpy, "jax": jax}, jax.numpy.asarray)


def _autograd() -> Callable[..., Any]:
    import autograd
    import autograd.scipy.special

    scope = {"np": autograd.numpy, "special": autograd.scipy.special}
    return _functional(autograd.grad, scope, lambda v: v if v.ndim else v[()])


def _scope(*modules: str) -> Callable[[], dict[str, Any]]:
    """Return what the code of behaviours finds: modules by name, or as in "np=jax.numpy"."""
    pairs = [module.rpartition("=") for module in modules]
    return lambda: {name or module: importlib.import_module(module) for name, _, module in pairs}


_SCOPES = {
    "pytorch": _scope("torch"),
    "jax": _scope("jax", "np=jax.numpy"),
    "autograd": _scope("autograd", "np=autograd.numpy"),
}
_DERIVATIVES: dict[str, Callable[[], Callable[..., Any]]] = {
    "pytorch": _pytorch,
    "jax": _jax,
    "autograd": _autograd,
}


# ---- the page


def page() -> str:
    """Return the page's text."""
    data = load()
    versions = [f"{title} {data['versions'][peer]}" for peer, title in PEERS.items()]
    names = f"{', '.join(versions[:-1])} and {versions[-1]}"
    rows = [*map(_row, data["rows"]), *map(_behaviour, data["behaviours"])]
    return HEAD.format(versions=names) + "\n".join(rows) + "\n"


def _row(row: dict[str, Any]) -> str:
    at = ", ".join(f"{name} = {_shown(v)}" for name, v in row["point"].items())
    asked = f" in {', '.join(wrt(row))}" if "wrt" in row else ""
    twice = ", twice" if row.get("order", 1) == 2 else ""
    ours = "an error" if row["grads"] == "ShapeError" else _gradients(row, row)
    theirs = [_theirs(row, peer) for peer in PEERS]
    text = row["expr"].replace("np.", "").replace("|", "\\|")
    cells = (row["convention"], f"`{text}`{asked}{twice}, {at}", ours, *theirs, row.get("why", ""))
    return "| " + " | ".join(cells) + " |"


def _behaviour(row: dict[str, Any]) -> str:
    theirs = [
        "-" if a is None else f"**{a}**" if a != row["answer"] else a for a in map(row["peers"].get, PEERS)
    ]
    cells = (row["convention"], f"`{row['code']['everyo']}`", row["answer"], *theirs, row.get("why", ""))
    return "| " + " | ".join(cells) + " |"


def _theirs(row: dict[str, Any], peer: str) -> str:
    answer = row["peers"][peer]
    if answer is None:
        return "-"
    text = "an error" if "error" in answer else _gradients(row, answer)
    return f"**{text}**" if differs(row, peer) else text


def _gradients(row: dict[str, Any], answer: dict[str, Any]) -> str:
    """Return a value, where the row has one, and the gradients, as the page shows them."""
    parts = [f"f = {_shown(answer['value'])}"] if "value" in row else []
    if row["grads"] is not None and row["grads"] != "ShapeError":
        parts += map(_shown, answer["grads"])
    return "; ".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
        z = complex(value) + 0
        if z != z:
            return "nan"
        return f"{z.real + 0:.3g}" if z.imag == 0 else f"{z.real + 0:.3g}{z.imag:+.3g}i"
    return value if isinstance(value, str) else f"{value + 0:.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="do not write; exit 1 if the page is out of date"
    )
    parser.add_argument("--ask", choices=tuple(PEERS), help="store what this package answers")
    chosen = parser.parse_args()
    if chosen.ask:
        ask(chosen.ask)
        return 0
    if chosen.check:
        return int(not PAGE.exists() or PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
