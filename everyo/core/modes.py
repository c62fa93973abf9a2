"""Grad modes: what is recorded, per thread and per asyncio task.

One context variable holds one immutable `Mode`, so an operation pays a single look-up for all of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar, cast

from everyo.core.functions import Transformed
from everyo.core.traced import depth, staging
from everyo.errors import CompileError

F = TypeVar("F", bound=Callable[..., Any])


class Mode:
    """What operations of the current thread or task do besides computing. Never changed, only replaced.

    Attributes
    ----------
    grad : bool
        Operations on tensors that require grad are recorded.
    inference : bool
        `inference_mode` is on: `enable_grad` inside it has no effect.
    anomaly : bool
        `detect_anomaly` is on: nodes keep their source line and the backward pass checks its values.
    changes : Changes or None
        Where a function that is differentiated on the eager tape notes in-place statements.
    held : int
        The level of the innermost transformation around the innermost `no_grad` block, -1 without a block.
        That one and those around it take what is computed in the block as constant; those inside do not.
    switch, below : ModeSwitch and Mode, or None
        The block that this mode belongs to, and the mode outside of it.
    """

    __slots__ = ("anomaly", "below", "changes", "grad", "held", "inference", "switch")

    def __init__(
        self,
        grad: bool = True,
        inference: bool = False,
        anomaly: bool = False,
        changes: Any = None,
        held: int = -1,
    ) -> None:
        self.grad, self.inference, self.anomaly, self.changes = grad, inference, anomaly, changes
        self.held = held
        self.switch: ModeSwitch | None = None
        self.below: Mode | None = None

    def replace(self, **new: Any) -> Mode:
        """Return a new mode with some attributes changed."""
        mode = Mode(self.grad, self.inference, self.anomaly, self.changes, self.held)
        for name, value in new.items():
            setattr(mode, name, value)
        return mode

    def recording(self, on: bool) -> Mode:
        """Return a new mode that records, unless `inference_mode` is on, or that does not."""
        if on and self.inference:
            return self.replace(grad=False)
        return Mode(on, self.inference, self.anomaly, self.changes, -1 if on else depth())


_mode: ContextVar[Mode] = ContextVar("everyo_mode", default=Mode())  # noqa: B039 - a Mode is immutable
current_mode = _mode.get


def is_constant(level: int) -> bool:
    """Whether a transformation of a level takes what is computed now as constant.

    Of a level that this context has not reached is one that runs in another thread: around all blocks here.
    """
    held = current_mode().held
    return held >= level or (held >= 0 and depth() < level)


def begin(level: int) -> Mode:
    """Return the mode in which a transformation of a level begins: no block that is open lies inside it.

    One whose own transformation has ended, as ``set_grad_enabled(False)`` leaves it behind, is from now
    on one around.
    """
    mode = current_mode()
    if mode.held < level:
        return mode
    around = mode.replace(held=level - 1)
    around.switch, around.below = mode.switch, mode.below
    _mode.set(around)
    return around


class ModeSwitch:
    """A context manager and decorator that changes the current mode and restores it, even on errors.

    A decorated generator or coroutine runs in the new mode between its own suspensions only, so the
    caller's mode never leaks in or out.
    """

    def __new__(cls, *args: Any, **options: Any) -> Any:
        if args and callable(args[0]):  # used as a bare decorator
            return cls()(args[0])
        return object.__new__(cls)

    def change(self, mode: Mode) -> Mode:
        """Return the mode to switch to."""
        raise NotImplementedError

    def arguments(self) -> tuple[Any, ...]:
        """Return what a switch of the same kind is made of."""
        return ()

    def fresh(self) -> Any:
        """Return an independent switch of the same kind, for one call of a decorated function."""
        return type(self)(*self.arguments())

    def __enter__(self) -> Any:
        self._switch(current_mode())
        return self

    def _switch(self, previous: Mode) -> None:
        mode = self.change(previous)
        mode.switch, mode.below = self, previous
        _mode.set(mode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        mode: Mode | None = current_mode()
        if mode is not None and mode.switch is self and mode.below is not None:
            _mode.set(mode.below)
            return
        # Blocks in generators may end in another order than they began: what began later stays in force.
        # A block that began in another thread or context is not found and changes nothing here.
        later: list[ModeSwitch] = []
        while mode is not None and mode.switch is not self:
            if mode.switch is not None:
                later.append(mode.switch)
            mode = mode.below
        if mode is not None and mode.below is not None:
            _mode.set(mode.below)
            for switch in reversed(later):
                switch._switch(current_mode())

    def __call__(self, function: F) -> F:
        made: Any = self._around(function)
        if "." in getattr(function, "__qualname__", ""):  # a method, which its name leads to: quicker to bind
            return cast("F", functools.update_wrapper(made, function))
        return cast("F", Transformed(made, function, decorated, kind=type(self), arguments=self.arguments()))

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls another one in the mode."""
        if inspect.isgeneratorfunction(function):

            def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                return (yield from _drive(self.fresh, function(*args, **kwargs)))

            return generator
        if inspect.iscoroutinefunction(function):

            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                return await _Awaitable(_drive(self.fresh, function(*args, **kwargs).__await__()))

            return coroutine
        if inspect.isasyncgenfunction(function):

            async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
                inner = function(*args, **kwargs)
                step = inner.__anext__()
                try:
                    while True:
                        try:
                            value = await _Awaitable(_drive(self.fresh, step.__await__()))
                        except StopAsyncIteration:
                            return
                        try:
                            step = inner.asend((yield value))
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            step = inner.athrow(error)
                finally:
                    await _Awaitable(_drive(self.fresh, inner.aclose().__await__()))

            return async_generator

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.fresh():
                return function(*args, **kwargs)

        return wrapped


def decorated(function: F, kind: type[ModeSwitch], arguments: tuple[Any, ...]) -> F:
    """Return a function decorated with a switch; what a pickle of one calls."""
    made: F = kind(*arguments)(function)
    return made


class _Awaitable:
    """Makes a driven generator awaitable."""

    def __init__(self, steps: Generator[Any, Any, Any]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._steps


def _drive(switch: Callable[[], ModeSwitch], inner: Any) -> Generator[Any, Any, Any]:
    """Run `inner` step by step, entering the mode for each step and leaving it at each suspension."""
    step, argument = inner.send, None
    try:
        while True:
            with switch():
                try:
                    value = step(argument)
                except StopIteration as stop:
                    return stop.value
            try:
                step, argument = inner.send, (yield value)
            except GeneratorExit:
                raise
            except BaseException as error:
                step, argument = inner.throw, error
    finally:
        with switch():
            inner.close()


class switched(ModeSwitch):
    """Replace attributes of the mode for the engine's own purposes, whatever the user's mode says."""

    def __init__(self, **new: Any) -> None:
        self.new = new

    def change(self, mode: Mode) -> Mode:
        return mode.replace(**self.new)


class no_grad(ModeSwitch):
    """Record nothing: results do not require grad. Context manager and decorator.

    Holds for the current thread or asyncio task; in a decorated generator, between its own yields.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([2.0], requires_grad=True)
    >>> with eo.no_grad():
    ...     y = x * 3
    >>> y.requires_grad
    False
    """

    def change(self, mode: Mode) -> Mode:
        return mode.recording(False)


class enable_grad(ModeSwitch):
    """Record again inside a `no_grad` block; without effect inside `inference_mode`.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([2.0], requires_grad=True)
    >>> with eo.no_grad(), eo.enable_grad():
    ...     y = x * 3
    >>> y.requires_grad
    True
    """

    def change(self, mode: Mode) -> Mode:
        return mode.recording(True)


class inference_mode(ModeSwitch):
    """Record nothing and let nothing inside switch recording on again.

    Parameters
    ----------
    mode : bool, default True
        False makes the block an ordinary one, with recording on.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([2.0], requires_grad=True)
    >>> with eo.inference_mode(), eo.enable_grad():
    ...     print((x * 3).requires_grad)
    False
    """

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def change(self, mode: Mode) -> Mode:
        return mode.replace(inference=self.mode).recording(not self.mode)

    def arguments(self) -> tuple[Any, ...]:
        return (self.mode,)


class set_grad_enabled(ModeSwitch):
    """Switch recording on or off: at once when called, and for a block when used as one.

    Parameters
    ----------
    mode : bool
        Whether operations are recorded.

    Examples
    --------
    >>> import everyo as eo
    >>> with eo.set_grad_enabled(False):
    ...     print(eo.is_grad_enabled())
    False
    >>> eo.is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = before = current_mode()
        mode_now = self.change(before)
        mode_now.switch, mode_now.below = before.switch, before.below  # the block around it ends it
        _mode.set(mode_now)

    def change(self, mode: Mode) -> Mode:
        return mode.recording(self.mode)

    def __enter__(self) -> Any:
        self._switch(self._before)
        return self

    def __call__(self, function: F) -> F:
        _mode.set(self._before)  # as a decorator it concerns the function alone
        return super().__call__(function)

    def arguments(self) -> tuple[Any, ...]:
        return (self.mode,)


def is_grad_enabled() -> bool:
    """Return whether operations are recorded now.

    Returns
    -------
    bool
        True outside of `no_grad`, `inference_mode` and ``set_grad_enabled(False)``.

    Examples
    --------
    >>> import everyo as eo
    >>> with eo.no_grad():
    ...     eo.is_grad_enabled()
    False
    """
    return current_mode().grad


def is_inference_mode_enabled() -> bool:
    """Return whether `inference_mode` is on.

    Returns
    -------
    bool
        False outside of `inference_mode`.

    Examples
    --------
    >>> import everyo as eo
    >>> with eo.inference_mode():
    ...     eo.is_inference_mode_enabled()
    True
    """
    return current_mode().inference


class detect_anomaly(ModeSwitch):
    """Find where a bad gradient comes from: at a cost, check every value of the backward pass.

    Inside the block each node keeps the source line of its forward call and a checksum of what it
    saved. A backward pass then raises NonFiniteGradientError at the first NaN or infinity, with the
    operation, that line and the first bad index, and GraphStateError if shared memory was overwritten.
    Compiled functions run as they are written, so that their operations are checked too; in one that is
    being compiled there are no values to check, and a CompileError says so.

    Examples
    --------
    >>> import everyo as eo
    >>> x = eo.tensor([0.0], requires_grad=True)
    >>> with eo.detect_anomaly():
    ...     try:
    ...         eo.sqrt(x).backward()
    ...     except eo.NonFiniteGradientError as error:
    ...         print(error.operation)
    sqrt
    """

    def change(self, mode: Mode) -> Mode:
        if staging.get() is not None:
            raise CompileError(
                "a function that is compiled has no values to check yet",
                operation="detect_anomaly",
                expected="a block around the call of the compiled function",
                found="a block in that function",
                remedy="move it there: the function then runs as it is written",
            )
        return mode.replace(anomaly=True)
