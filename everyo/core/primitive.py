"""Primitive: one operation's forward and its derivative rules.

A rule is a pure function whose first argument is the cotangent (vjp) or tangent (jvp); its further
arguments name what it reads, and that is all a node keeps:

* the name of an input (``x``): that input's array; ``out``: the result;
* ``x_shape`` or ``x_dtype``: only the shape or dtype of input ``x``;
* the name of a static parameter (``axis``).

So ``lambda g, out: g * out`` says by itself that exp saves its output and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

from everyo.core.batching import pointwise
from everyo.core.device import common_backend
from everyo.core.dispatch import apply
from everyo.core.registry import get_primitive, keep_kernel, register
from everyo.core.tensor import Tensor
from everyo.errors import GENERATED, UnsupportedOperationError

Rule = Callable[..., Any]
LINEAR, BILINEAR = ("linear",), ("bilinear",)  # jvp rules that are the operation itself
_VARARGS = inspect.CO_VARARGS
OUT, ALL, STATIC = -1, -2, -3  # origins of residuals that are no single input


class Plan:
    """How one operation is recorded and pulled back when a given set of its inputs needs a gradient.

    Attributes
    ----------
    primitive : Primitive
        The operation.
    save : callable or None
        ``save(out, *inputs)`` returns the tuple of residuals; None when the rules read none.
    pull : callable
        ``pull(g, saved, params)`` returns one cotangent for each needed input.
    direct : callable or None
        The one rule to call, as ``direct(g)`` or ``direct(g, saved[0])``, where a single input needs a
        gradient and its rule reads one residual or none: `pull` without the detour.
    origins : tuple of int
        Where each residual comes from: the position of an input, or `OUT`, `ALL` or `STATIC`.
    needed : tuple of int
        The positions of the inputs that need a gradient.
    count : int
        The number of inputs of the call.
    silent : bool
        Whether its rules may make a NaN without a floating-point flag; see `everyo.core.repair`.
    """

    __slots__ = ("count", "direct", "needed", "origins", "primitive", "pull", "save", "silent")

    def __init__(
        self,
        primitive: Primitive,
        save: Callable[..., tuple[Any, ...]] | None,
        direct: Rule | None,
        pull: Callable[[Any, tuple[Any, ...], dict[str, Any]], Sequence[Any]],
        origins: tuple[int, ...],
        needed: tuple[int, ...],
        count: int,
    ) -> None:
        self.primitive, self.save, self.direct, self.pull = primitive, save, direct, pull
        self.origins, self.needed, self.count = origins, needed, count
        self.silent = primitive.silent


class Primitive:
    """An operation with its rules. Made by the families in `everyo.ops`, once for each name.

    Parameters
    ----------
    forward : callable
        ``forward(xp, *inputs, **params)`` on raw arrays of one backend whose namespace is `xp`. Its
        signature names the inputs (positional) and the static parameters (keyword-only).
    vjp : sequence of rules, or one rule, or None
        One rule for each input, or one joint rule that also names ``needs`` (a tuple of bools) and
        returns a cotangent for each input. None when the result has no derivative.
    jvp : sequence of rules, or one rule, or None
        The same for tangents: rules for single inputs are summed; a joint rule gets a tuple of
        tangents, None for each input that is constant.
    batch : callable or None
        ``batch(primitive, inputs, batched, size, params)`` for `vmap`; see `everyo.core.batching`.
    family : str
        The family that supplied the rules.
    broadcasts : bool
        Inputs broadcast against each other; the engine sums the cotangents back.
    samples : callable
        Returns the sample inputs that the generic test suites run on.
    missing : str
        Why a rule is absent; a primitive without a rule and without a reason is refused.
    listed : bool
        Whether it is in the registry; a primitive made for one call is not.
    **options : dict
        What a family notes; ``keep(inputs)`` returns what to save of ``*inputs`` where a rule reads less;
        ``explain(inputs, params, error)`` returns the error for a kernel's exception, or None;
        ``called`` names the one function that it is part of;
        ``constant`` says that the result depends on shapes and dtypes alone, ``jumps`` in which inputs it is
        constant or linear between jumps, ``linear_in`` in which ones it is linear although its rule reads
        them or the result (positions, or a function of the parameters that returns them);
        ``silent`` says that its rules may make a NaN without a floating-point flag, as SciPy's functions do,
        and that the result may be NaN at numbers, as ``sqrt(-1)``.
    """

    __slots__ = (
        "batch", "broadcasts", "defaults", "family", "forward", "input_names", "jvp", "kernels",
        "leading", "listed", "missing", "name", "options", "param_names", "plans", "readers", "samples",
        "silent", "variadic", "vjp", "written_out",
    )  # fmt: skip

    def __init__(
        self,
        forward: Callable[..., Any],
        *,
        vjp: Sequence[Rule | None] | Rule | None,
        jvp: Sequence[Rule | None] | Rule | None,
        batch: Callable[..., Any] | None = None,
        family: str = "primitive",
        broadcasts: bool = False,
        samples: Callable[[], Sequence[Any]] | None = None,
        missing: str = "",
        listed: bool = True,
        **options: Any,
    ) -> None:
        self.name = forward.__name__.lstrip("_")
        self.forward, self.vjp, self.jvp = forward, vjp, jvp
        self.batch = pointwise if batch is None and family in ("elementwise", "discrete") else batch
        self.family, self.broadcasts, self.missing = family, broadcasts, missing
        self.samples, self.options = samples, options
        self.silent = bool(options.get("silent"))
        code = forward.__code__
        named = code.co_argcount + code.co_kwonlyargcount
        self.variadic = bool(code.co_flags & _VARARGS)
        self.input_names = (
            code.co_varnames[1 : code.co_argcount] + code.co_varnames[named : named + self.variadic]
        )
        self.leading = len(self.input_names) - self.variadic  # inputs that stand before the *inputs
        self.param_names = code.co_varnames[code.co_argcount : named]
        self.defaults = dict(forward.__kwdefaults__ or {})
        self.kernels: dict[type, Callable[..., Any]] = {}
        self.plans: dict[Any, Plan] = {}
        self.readers: dict[Any, Callable[..., tuple[Any, ...]]] = {}
        self.written_out: Callable[..., Any] | None = None  # `apply` for this primitive, if there is such
        if len(self.input_names) == 1 and not self.variadic:  # the one rule is that of the one input
            self.vjp = (vjp,) if callable(vjp) and "needs" not in rule_arguments(vjp) else vjp
            self.jvp = (jvp,) if callable(jvp) else jvp
        self._refuse_gaps()
        self.listed = listed
        if listed:
            register(self)

    def _refuse_gaps(self) -> None:
        """Raise unless every rule is there or its absence is explained."""
        absent = [rule for rule in ("vjp", "jvp", "batch") if getattr(self, rule) is None]
        if absent and not self.missing:
            raise UnsupportedOperationError(
                f"the primitive has no {' and no '.join(absent)} rule",
                operation=self.name,
                expected="a vjp, a jvp and a batching rule",
                found="missing: " + ", ".join(absent),
                remedy="write the rule or say why it is absent: missing='...'",
            )

    def __call__(self, x: Any, /, *others: Any, **params: Any) -> Any:
        """Apply to raw arrays (the result stays raw) or to tensors (recorded); rules use this form."""
        if not others:
            kernel = self.kernels.get(x.__class__)
            if kernel is not None:  # the most frequent case; the kernel has defaults of its own
                return kernel(x, **params) if params else kernel(x)
        if self.defaults:
            params = {**self.defaults, **params}
        return self.on((x, *others), params)

    def on(self, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply as `__call__` does, with all static parameters: as an interpreter hands a call down."""
        kernels = self.kernels
        kernel = None
        for operand in inputs:
            if isinstance(operand, Tensor):
                if self.written_out is None or params:
                    return apply(self, inputs, params)
                return self.written_out(*inputs)
            if kernel is None:
                kernel = kernels.get(operand.__class__)
        if kernel is None:
            kernel = self.kernel_for(inputs)
        return kernel(*inputs, **params) if params else kernel(*inputs)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (get_primitive, (self.name,))

    def kernel_for(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Return the forward bound to the backend of `inputs`; DeviceError if they have several."""
        backend = common_backend(inputs, self.name)
        kernel = self._direct(backend.xp) or self.forward.__get__(backend.xp)  # the cheapest partial
        for array in inputs:
            if self.listed and isinstance(array, backend.array_types):
                keep_kernel(self.kernels, type(array), kernel)
        return kernel

    def _direct(self, xp: Any) -> Callable[..., Any] | None:
        """Return the backend's own function if the kernel only hands all that it is given over to it."""
        if self.family not in ("elementwise", "discrete", "linear") or self.defaults:
            return None
        operands = tuple(object() for _ in self.input_names)
        params = {name: _Opaque() for name in self.param_names}
        try:
            called, arguments, named = self.forward(_Spy(), *operands, **params)
        except Exception:  # it does more than that
            return None
        return getattr(xp, called) if arguments == operands and named == params else None

    def plan(self, mask: int, count: int, needed: int | None = None) -> Plan:
        """Return how to record a call whose `count` inputs need gradients where `mask` has a bit.

        `needed` narrows the pullback to fewer inputs, on the residuals that `mask` saved.
        """
        alike = needed is None and not (self.variadic and callable(self.vjp))  # whatever `count` is
        key = mask if alike else (mask, count, needed)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = _compile_plan(self, mask, count, mask if needed is None else needed)
        return plan

    def reader(self, rule: Rule, count: int) -> Callable[..., tuple[Any, ...]]:
        """Return ``read(params, out, *inputs)``: what a jvp rule reads of a call of `count` inputs."""
        key = rule, count
        read = self.readers.get(key)
        if read is None:
            read = self.readers[key] = _compile_reader(self, rule, count)
        return read


class _Spy:
    """A namespace whose functions return their own name and arguments."""

    def __getattr__(self, name: str) -> Callable[..., tuple[str, tuple[Any, ...], dict[str, Any]]]:
        return lambda *arguments, **named: (name, arguments, named)


class _Opaque:
    """A parameter that a kernel may only hand on: no condition can be asked of it."""

    def __bool__(self) -> bool:
        raise TypeError("a parameter was read")


def rule_arguments(rule: Rule) -> tuple[str, ...]:
    """Return the names of what `rule` reads, without its cotangent or tangent."""
    code = getattr(rule, "__code__", None)
    if code is None or code.co_flags & _VARARGS or rule.__dict__:  # wrapped in another callable
        return tuple(inspect.signature(rule).parameters)[1:]
    names: tuple[str, ...] = code.co_varnames[1 : code.co_argcount]
    return names


def _compile_plan(primitive: Primitive, mask: int, count: int, needed: int) -> Plan:
    """Write the two small functions of a plan as source, so that a call runs without loops or lookups."""
    recorded = tuple(i for i in range(count) if mask >> i & 1)
    wanted = tuple(i for i in range(count) if needed >> i & 1)
    joint = callable(primitive.vjp)
    rules = {0: cast("Rule", primitive.vjp)} if joint else {i: _rule_for(primitive, i) for i in recorded}
    residuals: list[str] = []
    for rule in rules.values():
        for name in rule_arguments(rule):
            if name != "needs" and name not in primitive.param_names and name not in residuals:
                residuals.append(name)

    def call(i: int) -> str:
        arguments = ["g"]
        for name in rule_arguments(rules[i]):
            if name in residuals:
                arguments.append(f"saved[{residuals.index(name)}]")
            elif name == "needs":
                arguments.append(repr(tuple(bool(needed >> k & 1) for k in range(count))))
            else:
                arguments.append(f"params[{name!r}]")
        return f"rule{i}({', '.join(arguments)})"

    if joint:
        body = f"pick({call(0)}, {wanted})"
    else:
        body = f"({', '.join(call(i) for i in wanted)},)"
    scope: dict[str, Any] = {f"rule{i}": rule for i, rule in rules.items()}
    scope["pick"] = lambda cotangents, positions: [cotangents[i] for i in positions]
    pull = _function(f"lambda g, saved, params: {body}", scope)
    found = [_residual(primitive, name) for name in residuals]
    gather = ", ".join(source for source, _ in found)
    scope["keep"] = primitive.options.get("keep")
    save = _function(f"lambda out, {_inputs(primitive, count)}: ({gather},)", scope) if residuals else None
    direct = None
    if (
        len(wanted) == 1
        and not joint
        and not primitive.silent
        and len(residuals) < 2
        and rule_arguments(rules[wanted[0]]) == tuple(residuals)
    ):
        direct = rules[wanted[0]]
    return Plan(primitive, save, direct, pull, tuple(origin for _, origin in found), wanted, count)


def _compile_reader(primitive: Primitive, rule: Rule, count: int) -> Callable[..., tuple[Any, ...]]:
    """Write the function that `Primitive.reader` returns as source."""
    sources = [
        f"params[{name!r}]" if name in primitive.param_names else _residual(primitive, name)[0]
        for name in rule_arguments(rule)
    ]
    gather = "".join(f"{source}, " for source in sources)
    return _function(f"lambda params, out, {_inputs(primitive, count)}: ({gather})", {"keep": tuple})


def _inputs(primitive: Primitive, count: int) -> str:
    """Return the inputs of a call of `count` inputs as parameters of a function."""
    fixed = primitive.leading if primitive.variadic else count
    return "".join(f"x{i}, " for i in range(fixed)) + "*inputs" * primitive.variadic


def _function(source: str, scope: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that our own text, built from names, describes."""
    made: Callable[..., Any] = eval(compile(source, GENERATED, "eval"), scope)
    return made


def _rule_for(primitive: Primitive, i: int) -> Rule:
    rules = primitive.vjp
    rule = rules[i] if isinstance(rules, Sequence) and i < len(rules) else None
    if rule is None:
        raise no_rule(primitive, i)
    return rule


def no_rule(primitive: Primitive, i: int) -> UnsupportedOperationError:
    """Return the error for a derivative with respect to an input that has no rule."""
    name = primitive.input_names[min(i, len(primitive.input_names) - 1)]
    return UnsupportedOperationError(
        f"there is no gradient with respect to {name!r}",
        operation=primitive.name,
        expected="a differentiable operation",
        found=primitive.missing or "no rule",
        remedy=f"detach it first: {name}.detach()",
    )


def _residual(primitive: Primitive, name: str) -> tuple[str, int]:
    """Return the expression that finds a residual among ``inputs`` and ``out``, and its origin."""
    if name == "out":
        return "out", OUT
    for suffix in ("", "_shape", "_dtype"):
        base = name.removesuffix(suffix)
        if base not in primitive.input_names or name != base + suffix:
            continue
        attribute = suffix.replace("_", ".")
        position = primitive.input_names.index(base)
        if primitive.variadic and position == primitive.leading:
            if not suffix and "keep" in primitive.options:
                return "keep(inputs)", ALL
            return f"tuple([x{attribute} for x in inputs])", STATIC if suffix else ALL
        return f"x{position}{attribute}", STATIC if suffix else position
    raise UnsupportedOperationError(
        f"a rule reads {name!r}, which is neither an input nor a parameter",
        operation=primitive.name,
        expected=", ".join((*primitive.input_names, "out", *primitive.param_names)),
        found=name,
        remedy="name the rule's arguments after what it reads",
    )
