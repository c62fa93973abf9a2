"""The two primitives of implicit differentiation: the solution of a linear system, and a root.

Both take the unknowns' leaves first and then the coefficients: what the system's matrix depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from everyo.core.batching import looped
from everyo.core.modes import switched
from everyo.core.primitive import Primitive
from everyo.core.registry import op
from everyo.core.tensor import Tensor, wrap
from everyo.errors import UnsupportedOperationError, describe
from everyo.ops.creation import zeros
from everyo.transforms import krylov
from everyo.transforms.carry import same_leaves
from everyo.transforms.derivatives import linearize, pullback
from everyo.transforms.forward import jvp
from everyo.transforms.levels import lower, raised
from everyo.transforms.programs import Program

Tensors = list[Tensor]
Product = Callable[[Tensors], Tensors]
Solver = Callable[[Product, Product, Tensors], Tensors]


class System:
    """A linear map with coefficients, ``A(c) @ u`` on lists of tensors, and how to solve with it.

    `solver` takes the products with A and with its transpose and the right-hand side; `transposed` does
    the same for the transpose. Where one is None, GMRES serves.
    """

    def __init__(
        self,
        program: Program,
        count: int,
        solver: Solver | None,
        operation: str,
        transposed: Solver | None = None,
        symmetric: bool = False,
    ) -> None:
        self.program, self.count, self.operation = program, count, operation
        self.solver, self.transposed, self.symmetric = solver, transposed, symmetric

    def product(self, c: Tensors, u: Tensors) -> Tensors:
        """Return ``A(c) @ u``; differentiable in both."""
        raise NotImplementedError

    def transpose(self, c: Tensors, w: Tensors) -> Tensors:
        """Return the transpose times w; differentiable in both."""
        raise NotImplementedError

    def products(self, c: Tensors, like: Tensors) -> tuple[Product, Product]:
        """Return the products with A and its transpose for fixed coefficients."""
        raise NotImplementedError

    def flipped(self) -> System:
        """Return the system with the transpose."""
        return self if self.symmetric else Flipped(self)


class Flipped(System):
    """The system with the transpose of another's matrix."""

    def __init__(self, other: System) -> None:
        super().__init__(other.program, other.count, other.transposed, other.operation, other.solver)
        self.other = other

    def product(self, c: Tensors, u: Tensors) -> Tensors:
        return self.other.transpose(c, u)

    def transpose(self, c: Tensors, w: Tensors) -> Tensors:
        return self.other.product(c, w)

    def products(self, c: Tensors, like: Tensors) -> tuple[Product, Product]:
        forward, backward = self.other.products(c, like)
        return backward, forward

    def flipped(self) -> System:
        return self.other


class Linear(System):
    """A linear function as a program of the vector and the coefficients."""

    def product(self, c: Tensors, u: Tensors) -> Tensors:
        return self.program([*u, *c])

    def transpose(self, c: Tensors, w: Tensors) -> Tensors:
        origin = [zeros(x.shape, dtype=x.dtype, device=x.device) for x in w]
        return pullback(lambda *u: self.product(c, list(u)), *origin)[1](w)

    def products(self, c: Tensors, like: Tensors) -> tuple[Product, Product]:
        def product(*u: Tensor) -> Tensors:
            return self.product(c, list(u))

        return lambda u: product(*u), _late(lambda: pullback(product, *like)[1])


class Jacobian(System):
    """The derivative of a program with respect to its first inputs, at a point: the coefficients."""

    def __init__(self, program: Program, count: int, solver: Solver | None, operation: str) -> None:
        super().__init__(program, count, solver, operation, solver)

    def function(self, c: Tensors) -> tuple[Callable[..., Tensors], Tensors]:
        """Return the program as a function of its first inputs, and these."""
        rest = c[self.count :]
        return lambda *x: self.program([*x, *rest]), c[: self.count]

    def product(self, c: Tensors, u: Tensors) -> Tensors:
        function, x = self.function(c)
        return jvp(function, x, u)[1]

    def transpose(self, c: Tensors, w: Tensors) -> Tensors:
        function, x = self.function(c)
        return pullback(function, *x)[1](w)

    def products(self, c: Tensors, like: Tensors) -> tuple[Product, Product]:
        function, x = self.function(c)

        def forward() -> Product:
            push = linearize(function, *x)[1]
            return lambda u: push(*u)

        return _late(forward), _late(lambda: pullback(function, *x)[1])


def _late(make: Callable[[], Product]) -> Product:
    """Return a product that is made when first used."""
    made: list[Product] = []

    def product(u: Tensors) -> Tensors:
        if not made:
            made.append(make())
        return made[0](u)

    return product


def _solve(xp: Any, *arrays: Any, system: System, checked: bool) -> Any:
    """Solve ``A(c) u = b``: `arrays` are b and c. `checked` refuses what is no solution."""
    b, c = [wrap(a) for a in arrays[: system.count]], [wrap(a) for a in arrays[system.count :]]
    with switched(grad=True):  # a vjp inside needs it; nothing here is linked to a graph outside
        products = system.products(c, b)
        if system.solver is None:
            vectors = [krylov.on_vectors(p, b) for p in products]
            u = krylov.Layout(b).unravel(krylov.either(krylov.ravel(b), *vectors))
        else:
            u = system.solver(*products, b)
    names = [f"the solution's leaf {i}" for i in range(system.count)]
    same_leaves(u, b, names, system.operation)
    for x in u:
        if x.level:
            raise UnsupportedOperationError(
                "solve uses a captured tensor that is differentiated or mapped over",
                operation=system.operation,
                inputs=describe(x),
                expected="a solution computed from matvec and b alone",
                found="a value of a transformation around it",
                remedy="compute it from matvec, for example eo.implicit.solve_gmres",
            )
    if checked:
        sides = krylov.ravel(b), krylov.ravel([x.detach() for x in u])
        product = krylov.on_vectors(products[0], b)
        krylov.require_solved(product, *sides, krylov.accepted(sides[0].dtype), system.operation)
    return tuple(x.data for x in u)


def _solve_vjp(g: Any, arrays: Any, out: Any, system: System, needs: Sequence[bool]) -> list[Any]:
    n = system.count
    c, u = _tensors(arrays[n:]), _tensors(out)
    w = _tensors(solution(*_dense(g, out), *arrays[n:], system=system.flipped(), checked=True))
    wanted = [i for i in range(len(c)) if needs[n + i]]
    backward = _against(lambda c: system.product(c, u), c, wanted, w)
    return _at_level([*w, *backward], (*g.values(), *arrays))


def _solve_jvp(tangents: Sequence[Any], arrays: Any, out: Any, system: System) -> tuple[Any, ...]:
    n = system.count
    c, u = _tensors(arrays[n:]), _tensors(out)
    change = _along(lambda c: system.product(c, u), c, tangents[n:], u)
    rhs = [raised(t) - d if t is not None else -d for t, d in zip(tangents[:n], change, strict=True)]
    solved = solution(*map(lower, rhs), *arrays[n:], system=system, checked=True)
    return tuple(_at_level(_tensors(solved), (*tangents, *arrays)))


def _root(xp: Any, *arrays: Any, system: Jacobian) -> Any:
    """Return a solution that was found: `arrays` are the solution and the parameters of its equations."""
    return tuple(arrays[: system.count])


def _root_vjp(g: Any, arrays: Any, out: Any, system: Jacobian, needs: Sequence[bool]) -> list[Any]:
    n = system.count
    x, p = _tensors(out), _tensors(arrays[n:])
    coefficients = [*out, *arrays[n:]]
    w = _tensors(solution(*_dense(g, out), *coefficients, system=system.flipped(), checked=True))
    wanted = [i for i in range(len(p)) if needs[n + i]]
    backward = _against(lambda p: system.program([*x, *p]), p, wanted, w)
    return _at_level([*(None for _ in range(n)), *backward], (*g.values(), *arrays))


def _root_jvp(tangents: Sequence[Any], arrays: Any, out: Any, system: Jacobian) -> tuple[Any, ...]:
    n = system.count
    x, p = _tensors(out), _tensors(arrays[n:])
    change = _along(lambda p: system.program([*x, *p]), p, tangents[n:], x)
    solved = solution(*(lower(-d) for d in change), *out, *arrays[n:], system=system, checked=True)
    return tuple(_at_level(_tensors(solved), (*tangents, *arrays)))


def _dense(g: dict[int, Any], out: Sequence[Any]) -> list[Any]:
    """Return a cotangent for each result: zeros where none arrived."""
    return [g[i] if i in g else op.zeros_like(x) for i, x in enumerate(out)]


def _against(function: Any, c: Tensors, wanted: Sequence[int], w: Tensors) -> list[Any]:
    """Return the cotangents of the wanted coefficients for ``-w``, None for the others."""
    found: list[Any] = [None] * len(c)
    if wanted:
        _, pull = pullback(lambda *some: function(_replaced(c, wanted, some)), *(c[i] for i in wanted))
        for i, cotangent in zip(wanted, pull([-x for x in w]), strict=True):
            found[i] = cotangent
    return found


def _along(function: Any, c: Tensors, tangents: Sequence[Any], like: Tensors) -> Tensors:
    """Return the derivative of a function of the coefficients along their tangents."""
    moving = [i for i, t in enumerate(tangents) if t is not None]
    if not moving:
        return [op.zeros_like(x) for x in like]
    directions = [raised(tangents[i]) for i in moving]
    points = [c[i] for i in moving]
    return jvp(lambda *some: function(_replaced(c, moving, some)), points, directions)[1]


def _replaced(c: Tensors, places: Sequence[int], values: Sequence[Tensor]) -> Tensors:
    row = list(c)
    for i, x in zip(places, values, strict=True):
        row[i] = x
    return row


def _tensors(values: Sequence[Any]) -> Tensors:
    return [raised(v) for v in values]


def _at_level(results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Return a rule's results as it was called: raw where it was given nothing but raw arrays."""
    if any(isinstance(x, Tensor) for x in given):
        return list(results)
    return [None if x is None else lower(x) for x in results]


def _specs(inputs: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Return shapes and dtypes of the unknowns, which come first."""
    return [(x.shape, x.dtype) for x in inputs[: params["system"].count]]


solution = Primitive(
    _solve,
    vjp=_solve_vjp,
    jvp=_solve_jvp,
    batch=looped,
    specs=_specs,
    several=True,
    listed=False,
    linear_in=lambda params: range(params["system"].count),  # in the right-hand side
)
root = Primitive(_root, vjp=_root_vjp, jvp=_root_jvp, batch=looped, specs=_specs, several=True, listed=False)
