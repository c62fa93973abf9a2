"""The reproducible stream of random numbers that every random tensor is drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from everyo.core.device import backend_for
from everyo.core.dtypes import as_dtype, get_default_dtype
from everyo.core.tensor import Tensor, wrap
from everyo.core.traced import is_number, refuse_traced, staging
from everyo.errors import ArgumentError, DTypeError
from everyo.ops.axes import as_flag, normalize_axis, normalize_shape
from everyo.ops.batched_draws import drawn
from everyo.ops.creation import as_tensor, asarray, number, real_number
from everyo.ops.docstrings import described
from everyo.ops.known import everywhere, look
from everyo.ops.replay import watching
from everyo.ops.shape import broadcast_arrays
from everyo.ops.signatures import composed

Size = int | Sequence[int] | None
_SEED_OUTSIDE = "make and seed generators outside of the function, which draws anew at each call"

# What the docstrings of the distributions share.
_SIZE = """size : int or sequence of int, optional
    The shape of the result; by default the one that the parameters broadcast to."""
_FLOATS = """
dtype : dtype-like, optional
    A floating dtype; by default that of the parameters, or the default float dtype.
requires_grad : bool, default False
    Whether operations on the result are recorded."""
_DRAWN = """Tensor
    Of that shape and dtype."""
_MISFITS = """ShapeError
    If a length is negative, or the parameters do not broadcast to `size`.
DTypeError
    If the parameters are not numbers, `size` is not of integers, or the dtype is not a floating one."""
_NO_SIZE = """ShapeError
    If a length is negative.
DTypeError
    If `size` is not of integers, or the dtype is not a floating one."""
_NEGATIVE = """
ArgumentError
    If `scale` is a negative number."""
_INTEGERS = described(
    Parameters="""low, high : int
    The bounds; without `high` the integers are those from 0 to below `low`.
size : int or sequence of int, optional
    The shape of the result; one number by default.
dtype : dtype-like, default int64
    An integer dtype.""",
    Returns="""Tensor
    Of that shape and dtype; it carries no gradient.""",
    Raises="""ShapeError
    If a length is negative.
DTypeError
    If a bound is no number, or the dtype is no integer one.
ArgumentError
    If there is no integer between the bounds, or they do not fit the dtype.""",
)


class Generator:
    """A reproducible stream of random numbers (Philox on the CPU).

    Parameters
    ----------
    seed : int, optional
        Where the stream starts; without one, somewhere new each time.
    device : str, optional
        Where the tensors are made; "cpu" by default.

    Examples
    --------
    >>> import everyo as eo
    >>> a, b = eo.random.Generator(7), eo.random.Generator(7)
    >>> assert (a.uniform(size=3) == b.uniform(size=3)).all()
    """

    def __init__(self, seed: int | None = None, device: str | None = None) -> None:
        self._backend, self.device = backend_for(device)
        self.manual_seed(seed)

    def manual_seed(self, seed: int | None) -> Generator:
        """Start the stream anew at `seed`; return the generator."""
        refuse_traced("manual_seed", "a seed", _SEED_OUTSIDE)
        try:
            self._own = self._backend.xp.generator(seed)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                "this is no seed",
                operation="Generator",
                expected="an integer of at least 0, or None",
                found=repr(seed),
            ) from error
        return self

    @property
    def _stream(self) -> Any:
        """Where numbers are drawn from: a recomputation draws those of the first time again."""
        watch = watching()
        return self._own if watch is None else watch.stream(self)

    def get_state(self) -> dict[str, Any]:
        """Return the position in the stream, for `set_state`.

        Examples
        --------
        >>> import everyo as eo
        >>> g = eo.random.Generator(0)
        >>> state = g.get_state()
        >>> first = g.normal(size=2)
        >>> g.set_state(state)
        >>> assert (g.normal(size=2) == first).all()
        """
        refuse_traced("get_state", "the position of a generator", _SEED_OUTSIDE)
        return self._own.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to a position that `get_state` returned."""
        refuse_traced("set_state", "a position of a generator", _SEED_OUTSIDE)
        try:
            self._own.set_state(state)
        except (TypeError, ValueError, KeyError) as error:
            raise ArgumentError(
                "this is no state of such a generator",
                operation="set_state",
                expected="what get_state() returned",
                found=f"{type(state).__name__}: {error}",
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        return {"device": self.device, "state": self.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(0, state["device"])  # type: ignore[misc]
        self.set_state(state["state"])

    def _tensor(self, drawn: Any) -> Tensor:
        return wrap(self._backend.asarray(drawn, None, self.device))

    def _drawn(self, operation: str, shape: tuple[int, ...], draw: Any, at_once: bool = True) -> Tensor:
        tracer = staging.get()
        if tracer is not None:  # a program draws anew at each call
            return tracer.drawn(self, operation, shape, draw, at_once)
        return drawn(self._backend.xp, operation, shape, draw, self._tensor, at_once)

    def _parameter(self, value: Any) -> Any:
        """Return a parameter as a plain number or a tensor."""
        return value if _numbers(value) or isinstance(value, Tensor) else asarray(value, device=self.device)

    def _noise(self, kind: str, size: Size, dtype: Any, *parameters: Any) -> Tensor:
        """Return standard noise, by default of the shape and dtype that the parameters broadcast to."""
        tensors = [p for p in parameters if hasattr(p, "shape")]
        xp = self._backend.xp
        if size is None:
            shape = tuple(broadcast_arrays(*map(as_tensor, tensors))[0].shape) if tensors else ()
        else:
            shape = normalize_shape(size, kind)
        if dtype is None:
            floats = [t.dtype for t in tensors if t.dtype.kind == "f" and not is_number(t)]
            dtype = xp.result_type(*floats) if floats else get_default_dtype()
        wanted = as_dtype(dtype)
        if wanted.kind != "f":
            raise DTypeError(
                "random real numbers need a floating dtype",
                operation=kind,
                expected="float16, float32 or float64",
                found=str(wanted),
                remedy="leave dtype out, or convert the numbers: x.astype(...)",
            )
        return self._drawn(kind, shape, lambda shape: getattr(self._stream, kind)(shape, wanted))

    @described(Parameters=_SIZE + _FLOATS, Returns=_DRAWN, Raises=_MISFITS)
    def uniform(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        size: Size = None,
        *,
        dtype: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return numbers spread evenly over [low, high).

        Parameters
        ----------
        low, high : number or tensor
            The bounds; rounding may reach `high`. Gradients flow to tensors, as
            ``low + (high - low) * noise``.

        Examples
        --------
        >>> import everyo as eo
        >>> x = eo.random.uniform(-1, 1, size=1000)
        >>> assert ((-1 <= x) & (x < 1)).all()
        """
        low, high = self._parameter(low), self._parameter(high)
        noise = self._noise("uniform", size, dtype, low, high)
        plain = _numbers(low, high) and (low, high) == (0, 1)
        return _made(noise if plain else low + (high - low) * noise, dtype, requires_grad)

    @described(Parameters=_FLOATS.strip(), Returns=_DRAWN, Raises=_NO_SIZE)
    @composed
    def standard_normal(self, size: Size = None, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
        """Return normally distributed numbers of mean 0 and variance 1; they carry no gradient.

        Parameters
        ----------
        size : int or sequence of int, optional
            The shape of the result; one number by default.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.random.standard_normal((2, 3)).shape
        (2, 3)
        """
        return _made(self._noise("normal", () if size is None else size, dtype), dtype, requires_grad)

    @described(Parameters=_SIZE + _FLOATS, Returns=_DRAWN, Raises=_MISFITS + _NEGATIVE)
    def normal(
        self,
        loc: Any = 0.0,
        scale: Any = 1.0,
        size: Size = None,
        *,
        dtype: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return normally distributed numbers.

        Parameters
        ----------
        loc, scale : number or tensor
            Mean and standard deviation; gradients flow to tensors, as ``loc + scale * noise``.

        Examples
        --------
        >>> import everyo as eo
        >>> mean = eo.tensor([0.0, 5.0], requires_grad=True)
        >>> eo.random.normal(mean).sum().backward()
        >>> print(mean.grad)
        [1. 1.]
        """
        loc, scale = self._parameter(loc), self._parameter(scale)
        _require_scale(scale, "normal")
        noise = self._noise("normal", size, dtype, loc, scale)
        plain = _numbers(loc, scale) and (loc, scale) == (0, 1)
        return _made(noise if plain else loc + scale * noise, dtype, requires_grad)

    @described(Parameters=_SIZE + _FLOATS, Returns=_DRAWN, Raises=_MISFITS + _NEGATIVE)
    def exponential(
        self, scale: Any = 1.0, size: Size = None, *, dtype: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Return exponentially distributed numbers.

        Parameters
        ----------
        scale : number or tensor
            Their mean; gradients flow to a tensor, as ``scale * noise``.

        Examples
        --------
        >>> import everyo as eo
        >>> assert (eo.random.exponential(2.0, size=10) >= 0).all()
        """
        scale = self._parameter(scale)
        _require_scale(scale, "exponential")
        return _made(scale * self._noise("exponential", size, dtype, scale), dtype, requires_grad)

    @described(Parameters="endpoint : bool, default False\n    Whether `high` is among them.")
    @_INTEGERS
    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size = None,
        *,
        dtype: Any = "int64",
        endpoint: bool = False,
    ) -> Tensor:
        """Return integers from [low, high), or from [0, low) if only one bound is given.

        Examples
        --------
        >>> import everyo as eo
        >>> dice = eo.random.integers(1, 7, size=100)
        >>> assert ((1 <= dice) & (dice <= 6)).all()
        """
        low, high = (_bound(v) for v in ((0, low) if high is None else (low, high)))
        wanted = as_dtype(dtype)
        if wanted.kind not in "iu":
            raise DTypeError(
                "random integers need an integer dtype",
                operation="integers",
                expected="an integer dtype",
                found=str(wanted),
                remedy="leave dtype out, or convert the numbers: x.astype(...)",
            )
        shape = () if size is None else normalize_shape(size, "integers")
        stop = high + as_flag(endpoint, "endpoint", "integers")
        _require(low < stop or not math.prod(shape), "integers", "low < high", f"{low} and {high}")
        try:
            return self._drawn(
                "integers", shape, lambda shape: self._stream.integers(low, stop, shape, wanted)
            )
        except ValueError as error:
            raise ArgumentError(
                "the bounds do not fit the dtype",
                operation="integers",
                expected=str(wanted),
                found=str(error),
            ) from error

    @_INTEGERS
    @composed
    def randint(
        self, low: int, high: int | None = None, size: Size = None, *, dtype: Any = "int64"
    ) -> Tensor:
        """Return integers from [low, high): `integers` under the name of NumPy's older interface.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.random.randint(10, size=(2, 3)).shape
        (2, 3)
        """
        return self.integers(low, high, size, dtype=dtype)

    @composed
    def bernoulli(self, p: Any = 0.5, size: Size = None, *, dtype: Any = None) -> Tensor:
        """Return 1 with probability `p` and 0 otherwise; the result carries no gradient.

        Parameters
        ----------
        p : number or tensor
            From [0, 1].
        size : int or sequence of int, optional
            The shape of the result; by default that of `p`.
        dtype : dtype-like, optional
            Any dtype; by default that of `p`, or the default float dtype.

        Returns
        -------
        Tensor
            Of that shape and dtype.

        Raises
        ------
        ShapeError
            If a length is negative, or `p` does not broadcast to `size`.
        DTypeError
            If `p` is not of numbers, `size` is not of integers, or there is no such dtype.
        ArgumentError
            If a probability lies outside of [0, 1].

        Examples
        --------
        >>> import everyo as eo
        >>> print(eo.random.bernoulli(1.0, size=3))
        [1. 1. 1.]
        """
        p = p.detach() if isinstance(p, Tensor) and not is_number(p) else asarray(p, device=self.device)

        def check(p: Any) -> None:
            _require(everywhere((p >= 0) & (p <= 1)), "bernoulli", "probabilities from 0 to 1", p)

        look(check, p, batches=True)
        noise = self._noise("uniform", size, None, p)
        return (noise < p).astype(noise.dtype if dtype is None else dtype)

    def permutation(self, x: Any, /, axis: int = 0) -> Tensor:
        """Return the slices of `x` along an axis in random order, or the numbers below an int in such order.

        The gradient goes back to where each slice came from.

        Parameters
        ----------
        x : int or tensor
            The number below which the integers lie, or a tensor of any dtype with at least one axis.
        axis : int, default 0
            The axis of a tensor along which the slices lie.

        Returns
        -------
        Tensor
            Of shape ``(x,)`` and dtype int64, or of the shape and dtype of `x`.

        Raises
        ------
        ShapeError
            If the number is negative.
        IndexingError
            If there is no such axis.
        DTypeError
            If `x` is not of numbers, or `axis` is no integer.

        Examples
        --------
        >>> import everyo as eo
        >>> sorted(eo.random.permutation(4).tolist())
        [0, 1, 2, 3]
        """
        if isinstance(x, int):
            return self._shuffled(normalize_shape(x, "permutation")[0])
        x = as_tensor(x)
        axis = normalize_axis(axis, x.ndim, "permutation")
        return x[(slice(None),) * axis + (self._shuffled(x.shape[axis]),)]

    def _shuffled(self, n: int) -> Tensor:
        return self._drawn("permutation", (n,), lambda shape: self._stream.permutation(n), at_once=False)

    def choice(self, a: Any, size: Size = None, *, replace: bool = True, p: Any = None) -> Tensor:
        """Return random elements of `a` along its first axis, or random numbers below an int.

        Parameters
        ----------
        a : int or tensor
            What is drawn from; gradients flow to a tensor.
        size : int or sequence of int, optional
            How many; one by default.
        replace : bool, default True
            Whether one element may be drawn several times.
        p : tensor, optional
            The probability of each; even by default. It gets no gradient.

        Returns
        -------
        Tensor
            Of shape ``size``, followed by the other axes of `a`.

        Raises
        ------
        ShapeError
            If a length is negative.
        DTypeError
            If `a` is neither an integer nor of numbers, or is 0-d.
        ArgumentError
            If there are too few elements, or the probabilities do not fit them or do not sum to 1.

        Examples
        --------
        >>> import everyo as eo
        >>> eo.random.choice(eo.tensor([10.0, 20.0]), 5).shape
        (5,)
        """
        pool = a if isinstance(a, int) else as_tensor(a)
        n = pool if isinstance(pool, int) else len(pool)
        shape = () if size is None else normalize_shape(size, "choice")
        weights = None if p is None else as_tensor(p).detach().astype("float64")._host("choice")
        try:
            places = self._drawn(
                "choice", shape, lambda shape: self._stream.choice(n, shape, replace, weights), replace
            )
        except (TypeError, ValueError) as error:  # the first of probabilities without an axis
            raise ArgumentError(
                "the choice cannot be made",
                operation="choice",
                expected="elements enough, and probabilities that sum to 1",
                found=str(error),
            ) from error
        return places if isinstance(pool, int) else pool[places]


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, (int, float)) for v in values)


def _bound(value: Any) -> Any:
    bound = number(value, "integers", "a bound")
    if isinstance(bound, complex):
        real_number(bound, "integers", "a bound")  # its error
    return bound


def _require(holds: bool, operation: str, expected: str, found: Any) -> None:
    if not holds:
        raise ArgumentError(
            "a parameter is out of range", operation=operation, expected=expected, found=str(found)
        )


def _require_scale(scale: Any, operation: str) -> None:
    """Raise ArgumentError for a number below 0, also for one that a compiled function is given."""

    def check(scale: Any) -> None:
        _require(scale >= 0, operation, "a scale of at least 0", scale)

    if _numbers(scale):
        check(scale)
    elif is_number(scale):
        look(check, scale)


def _made(drawn: Tensor, dtype: Any, requires_grad: bool) -> Tensor:
    drawn = drawn if dtype is None else drawn.astype(dtype, copy=False)
    return drawn.requires_grad_() if as_flag(requires_grad, "requires_grad", "random") else drawn
