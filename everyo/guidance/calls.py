"""Calls that do not fit the signature of a function: the error says what to write. Read when there is one."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from everyo.errors import SignatureError, describe, user_frame
from everyo.guidance.conversions import running_calls

SURPLUS, UNKNOWN = "surplus", "unknown"  # parameters that only catch what has no place
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

# For keywords that a function does not have: what it may have instead, the first that it has, or a sentence.
KEYWORDS = {
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes"),
    "axis": ("axes",),
    "axes": ("axis",),
    "keepdim": ("keepdims",),
    "unbiased": ("pass correction=1 for unbiased=True, correction=0 for unbiased=False",),
    "input": ("pass the tensor first, without a name",),
    "tensors": ("pass the tensors first, as one list without a name",),
    "arrays": ("pass the tensors first, as one list without a name",),
    "a": ("pass the tensor first, without a name",),
    "x": ("pass the tensor first, without a name",),
    "size": ("shape",),
    "shape": ("size",),
    "out": ("assign the result: y = f(x) in place of f(x, out=y)",),
    "steps": ("num",),
    "index": ("indices",),
    "shifts": ("shift",),
    "p": ("ord",),
    "ord": ("p",),
    "in_dims": ("in_axes",),
    "out_dims": ("out_axes",),
    "argnum": ("argnums",),
    "argnames": ("argnums",),
}

# For arguments of one function, by their names; "" for too many or too few of them.
CALLS = {
    ("compile", "static_argnames"): "write static_argnums=1; the argument may still be given by name",
    ("compile", "donate_argnums"): "leave it out: results never share memory with arguments",
    ("compile", "dynamic"): "leave it out: other shapes compile another program",
    ("vmap", "axis_name"): "leave it out: sums over a batch are taken outside, eo.vmap(f)(x).sum(axis=0)",
    ("checkpoint", ""): "write eo.checkpoint(f)(x): first the function, then its arguments",
    ("checkpoint", "use_reentrant"): "leave it out, and write eo.checkpoint(f)(x)",
    ("checkpoint", "policy"): "leave it out: only the inputs of the function are kept",
    ("compile", ""): "write eo.compile(f)(x): first the function, then its arguments; options by name",
    ("vmap", ""): "write eo.vmap(f, in_axes, out_axes)(x): first the function, then its arguments",
    ("where", ""): "write eo.where(condition, a, b); the places where it holds are eo.nonzero(condition)",
    ("var", "ddof"): "correction",
    ("solve_triangular", "lower"): "write upper=False for lower=True, upper=True for lower=False",
    ("cholesky", "lower"): "leave it out for the lower factor, write upper=True for the upper one",
    ("eigh", "lower"): 'write UPLO="L" for lower=True, UPLO="U" for lower=False',
    ("eigvalsh", "lower"): 'write UPLO="L" for lower=True, UPLO="U" for lower=False',
    ("sort", ""): "pass axis by name",
    **{(name, "order"): f'write x.{name}(..., order="F"), a method' for name in ("reshape", "ravel")},
    ("copy", "order"): "leave it out: the elements are the same in any",
    ("astype", "casting"): "leave it out: astype converts whatever the kinds are",
}

# Functions of two operands that several may be folded by.
ASSOCIATIVE = frozenset(
    ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "gcd", "lcm")
    + ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
)


def misfit(function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]) -> SignatureError:
    """Return the error for a call whose arguments do not fit: too many, too few, or of unknown names."""
    signature = _shown(function)
    parameters = signature.parameters
    name = function.__name__
    if list(given) == ["out"] and _by_position(
        given["out"]
    ):  # functions of few operands catch one more by it
        args, given = (*args, given["out"]), {}
    unknown = [key for key in given if key not in parameters]
    surplus = args[sum(p.kind in _POSITIONAL for p in parameters.values()) :]
    if unknown:
        message = f"there is no argument {unknown[0]!r}"
        found = ", ".join(f"{key}={_value(given[key])}" for key in unknown)
    elif surplus:
        message = f"{len(args)} arguments are given by position"
        found = ", ".join(map(_value, args))
    else:
        message = "an argument is missing, or given twice"
        found = ", ".join([*map(_value, args), *(f"{key}={_value(x)}" for key, x in given.items())])
    return SignatureError(
        message,
        operation=name,
        expected=f"{name}{signature}",
        found=found or "no argument",
        remedy=_remedy(name, parameters, unknown, args, surplus, given),
    )


def _by_position(value: Any) -> bool:
    """Whether the user's call gives a value for ``out=`` without its name, as one operand more."""
    frame = user_frame()
    calls = [] if frame is None else [node for *_, node in running_calls(frame) if isinstance(node, ast.Call)]
    if not calls:
        return not hasattr(value, "shape")
    return not any(keyword.arg in ("out", None) for call in calls for keyword in call.keywords)


def _folded(name: str, args: Sequence[Any]) -> str | None:
    """Return what to write for one operand more than a function takes."""
    if name == "log":
        base = args[1]
        plain = isinstance(base, (int, float))
        divided = f"eo.log(x) / {f'math.log({base})' if plain else 'eo.log(base)'}"
        named = {2: "eo.log2(x), or ", 10: "eo.log10(x), or "}.get(base, "") if plain else ""
        return f"write {named}{divided}"
    if name not in ASSOCIATIVE or len(args) != 3:
        return None
    text = f"write eo.{name}(eo.{name}(a, b), c)"
    return f"{text}, or eo.vector_norm(eo.stack([a, b, c]), axis=0)" if name == "hypot" else text


def _shown(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function without annotations, and without what only catches misfits."""
    kept = [p for p in inspect.signature(function).parameters.values() if p.name not in (SURPLUS, UNKNOWN)]
    if hasattr(function, "primitive"):  # its operands are named in its kernel
        named = zip(kept, function.primitive.input_names, strict=True)
        kept = [p.replace(name=name) for p, name in named]
    return inspect.Signature([p.replace(annotation=p.empty) for p in kept])


def _remedy(
    name: str,
    parameters: Mapping[str, Any],
    unknown: Sequence[str],
    args: Sequence[Any],
    surplus: Sequence[Any],
    given: Mapping[str, Any],
) -> str:
    if unknown:
        return "; ".join(dict.fromkeys(_renamed(name, key, given[key], parameters) for key in unknown))
    whole = CALLS.get((name, ""))
    if whole is not None:
        return whole
    folded = _folded(name, args) if surplus else None
    if folded is not None:
        return folded
    last = [p.name for p in parameters.values() if p.kind in _POSITIONAL][-1:]
    if surplus and last in (["shape"], ["axes"], ["reps"]):  # several numbers in place of one tuple
        first = len(args) - len(surplus) - 1
        return f"write eo.{name}({'x, ' * first}({', '.join(map(_value, args[first:]))})), with one tuple"
    if surplus and name == "full":
        return f"write eo.full(({', '.join(map(_value, args[:-1]))}), {_value(args[-1])}), with one tuple"
    return "pass the arguments that are expected; those behind * by name"


def _renamed(name: str, key: str, value: Any, parameters: Mapping[str, Any]) -> str:
    """Return what to write in place of one unknown argument."""
    special = CALLS.get((name, key))
    if special is not None:
        return special
    for word in KEYWORDS.get(key, ()):
        if word in parameters and parameters[word].kind is inspect.Parameter.POSITIONAL_ONLY:
            return f"pass {word} by position, in place of {key}={_value(value)}"
        if word in parameters:
            return f"write {word}={_value(value)} in place of {key}={_value(value)}"
        if " " in word:
            return word
    near = get_close_matches(key, parameters, 1, 0.8)
    return f"write {near[0]}= in place of {key}=" if near else f"leave {key} out"


def _value(x: Any) -> str:
    """Return an argument as a message shows it: short."""
    text = describe(x) if hasattr(x, "shape") else repr(x)
    return text if len(text) <= 40 else type(x).__name__
