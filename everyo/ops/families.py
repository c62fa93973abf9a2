"""Families: they supply the derivative rules that the algebra of an operation implies.

=============  =====================================  ==========================================
family         an operation gives                     and gets
=============  =====================================  ==========================================
elementwise    one partial for each input             vjp and jvp, broadcasting and repair
linear         its transpose                          jvp (itself)
bilinear       a transpose for each input             jvp (the product rule)
discrete       nothing                                results that carry no gradient
primitive      vjp and jvp                            nothing
=============  =====================================  ==========================================

A partial ``lambda g, x: g * f'(x)`` is linear in `g` and serves both directions, because inside the
engine complex cotangents are plain transposes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from everyo.core.dispatch import apply, binary, unary
from everyo.core.primitive import BILINEAR, LINEAR, Primitive, Rule
from everyo.core.samples import Sample, sample
from everyo.core.tensor import Tensor
from everyo.guidance import OfUfuncs
from everyo.ops.docstrings import with_sections

F = TypeVar("F", bound=Callable[..., Any])
_UFUNC_METHODS = ("at", "reduce", "accumulate", "outer", "reduceat")
Samples = Callable[[], Sequence[Sample]]


def elementwise(
    *partials: Rule | None,
    domain: Any = (-2.0, 2.0),
    samples: Samples | None = None,
    missing: str = "",
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]:
    """Declare an elementwise operation: the decorated kernel becomes the public function.

    Parameters
    ----------
    *partials : rule or None
        For each input ``partial(g, ...)``: `g` times the derivative with respect to it. None for an
        input without derivative (a condition).
    domain : tuple of float, or a tuple of such for each input
        Where the operation is smooth; sample values are drawn from it.
    samples : callable, optional
        Samples in place of the family's own.
    missing : str
        Why a partial is None.
    **options
        Options of the `Primitive`.

    Returns
    -------
    callable
        A decorator for ``kernel(xp, *inputs)``. The public function has the kernel's docstring and its
        signature without `xp`; its ``primitive`` attribute is the `Primitive`.
    """

    def declare(kernel: Callable[..., Any]) -> Callable[..., Tensor]:
        count = len(partials)
        primitive = Primitive(
            kernel,
            vjp=partials,
            jvp=partials,
            family="elementwise",
            broadcasts=count > 1,
            samples=samples or functools.partial(_elementwise_samples, count),
            missing=missing,
            domain=domain if isinstance(domain[0], tuple) else (domain,) * count,
            **options,
        )
        return public(primitive)

    return declare


def _elementwise_samples(count: int) -> list[Sample]:
    if count == 1:
        return [sample(shape) for shape in ((), (3,), (2, 3), (0,), (2, 1, 2))]
    shapes = [
        ((), ()),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((2, 1), (1, 3)),
        ((), (2,)),
        ((0, 2), (2,)),
        ((4, 1, 2), (3, 1)),
    ]
    return [sample(*(pair[i % 2] for i in range(count))) for pair in shapes]


def discrete(kernel: Any = None, *, samples: Samples | None = None) -> Any:
    """Declare an elementwise operation whose result (booleans, integers) carries no gradient."""
    if kernel is None:
        return functools.partial(discrete, samples=samples)
    count = kernel.__code__.co_argcount - 1
    primitive = Primitive(
        kernel,
        vjp=None,
        jvp=None,
        family="discrete",
        broadcasts=count > 1,
        samples=samples or functools.partial(_elementwise_samples, count),
        missing="its result is discrete",
    )
    return public(primitive)


def public(primitive: Primitive) -> Callable[..., Tensor]:
    """Return the public function of a primitive whose call needs no preparation."""
    kernel = primitive.forward
    count = len(primitive.input_names)
    function: Callable[..., Any]
    if count == 1:
        function = primitive.written_out = unary(primitive)
    elif count == 2:
        function = primitive.written_out = binary(primitive)
    elif count == 3:

        def function(x1: Any, x2: Any, x3: Any, /) -> Any:
            return apply(primitive, (x1, x2, x3))

    else:

        def function(*inputs: Any) -> Any:
            if len(inputs) != count:
                raise TypeError(f"{primitive.name}() takes {count} operands, not {len(inputs)}")
            return apply(primitive, inputs)

    function.__signature__ = _signature(primitive.input_names)  # type: ignore[union-attr]
    for attribute in ("__module__", "__name__", "__qualname__"):
        setattr(function, attribute, getattr(kernel, attribute))
    function.__doc__ = with_sections(kernel.__doc__, **_shared_sections(primitive))
    function.primitive = primitive  # type: ignore[union-attr]
    if primitive.family in ("elementwise", "discrete") and count <= 2:
        for method in _UFUNC_METHODS[: None if count == 2 else 1]:
            setattr(function, method, OfUfuncs(method, function.__name__))
    return function


@functools.lru_cache
def _signature(names: tuple[str, ...]) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names])


def _shared_sections(primitive: Primitive) -> dict[str, str]:
    """Return the sections that are the same for all elementwise functions, but those that it has."""
    doc, names = primitive.forward.__doc__ or "", primitive.input_names
    kind = "it carries no gradient"
    if len(names) > 1:
        if primitive.vjp is not None:
            kind = "floats give their common dtype"
        operands, shape, the = (
            "Shapes that broadcast; a number takes the others' dtype.",
            "broadcast",
            "an operand's",
        )
        errors = "ShapeError\n    If the shapes do not broadcast.\n"
    else:
        if primitive.vjp is not None:
            kind = "floats keep their dtype"
        operands, shape, the, errors = "Of any shape.", "same", "the", ""
    sections = {
        "Parameters": f"{', '.join(names)} : tensor, array or number\n    {operands}",
        "Returns": f"Tensor\n    Of the {shape} shape; {kind}.",
        "Raises": f"{errors}DTypeError\n    If {the} elements are not numbers, or are of a dtype that the "
        "function is not defined for.",
    }
    return {title: text for title, text in sections.items() if f"{title}\n" not in doc}


def linear(
    vjp: Rule | Sequence[Rule], *, samples: Samples, **options: Any
) -> Callable[[Callable[..., Any]], Primitive]:
    """Declare an operation that is linear in all its array inputs together; `vjp` is its transpose."""
    return functools.partial(_declare, vjp=vjp, jvp=LINEAR, family="linear", samples=samples, **options)


def bilinear(*vjps: Rule, samples: Samples, **options: Any) -> Callable[[Callable[..., Any]], Primitive]:
    """Declare an operation that is linear in each input; one transpose for each."""
    return functools.partial(_declare, vjp=vjps, jvp=BILINEAR, family="bilinear", samples=samples, **options)


def primitive(
    vjp: Rule | Sequence[Rule | None] | None,
    jvp: Rule | Sequence[Rule | None] | None,
    *,
    samples: Samples,
    **options: Any,
) -> Callable[[Callable[..., Any]], Primitive]:
    """Declare an operation with its own pair of rules."""
    return functools.partial(_declare, vjp=vjp, jvp=jvp, samples=samples, **options)


def _declare(kernel: Callable[..., Any], **rules: Any) -> Primitive:
    return Primitive(kernel, **rules)
