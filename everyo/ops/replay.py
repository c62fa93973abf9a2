"""Random numbers drawn a second time: what a recomputation needs in order to see the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from everyo.errors import GraphStateError

_watch: ContextVar[Watch | None] = ContextVar("everyo_draws", default=None)
watching = _watch.get


class Draws:
    """What a block of code draws: where each generator's stream stood at each draw."""

    __slots__ = ("positions",)

    def __init__(self) -> None:
        self.positions: list[Any] = []

    def noted(self) -> Watch:
        """Return a context that notes the draws of its block."""
        self.positions = []
        return Watch(self)

    def again(self) -> Watch:
        """Return a context in which the noted draws are made again; no generator moves."""
        return Replay(self)


class Watch:
    """Notes the draws of one block, and lets an outer watch note them, too."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.outer: Watch | None = None
        self._token: Token[Watch | None] | None = None

    def stream(self, generator: Any) -> Any:
        """Return the stream that `generator` draws from next, for one draw."""
        stream = generator._own if self.outer is None else self.outer.stream(generator)
        return _Noting(stream, self.draws.positions)

    def traced(self, draw: Callable[[], Any]) -> Any:
        """Return what a compiled program draws: it is noted itself, as a position is not known yet."""
        made = draw() if self.outer is None else self.outer.traced(draw)
        self.draws.positions.append(made)
        return made

    def __enter__(self) -> Watch:
        self.outer = watching()
        self._token = _watch.set(self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        assert self._token is not None
        _watch.reset(self._token)


@contextmanager
def unwatched() -> Iterator[None]:
    """Let a block draw without being noticed."""
    token = _watch.set(None)
    try:
        yield
    finally:
        _watch.reset(token)


class Replay(Watch):
    """Makes noted draws again, from streams of its own."""

    def __init__(self, draws: Draws) -> None:
        super().__init__(draws)
        self.made = 0

    def stream(self, generator: Any) -> Any:
        """Return a stream that stands where that of `generator` stood at this draw."""
        if self.made == len(self.draws.positions):
            raise _unlike("more")
        again = generator._backend.xp.generator(0)
        again.set_state(self.draws.positions[self.made])
        self.made += 1
        return again

    def traced(self, draw: Callable[[], Any]) -> Any:
        """Return what was drawn the first time."""
        if self.made == len(self.draws.positions):
            raise _unlike("more")
        self.made += 1
        return self.draws.positions[self.made - 1]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if error is None and self.made < len(self.draws.positions):
            raise _unlike("fewer")


class Rehearsal(Watch):
    """Lets a block draw from copies of the streams, for the looks of what it returns: no generator moves."""

    def __init__(self) -> None:
        super().__init__(Draws())
        self.copies: dict[Any, Any] = {}

    def stream(self, generator: Any) -> Any:
        """Return a stream of the block's own that stands where that of `generator` stands."""
        if generator not in self.copies:
            self.copies[generator] = copied = generator._backend.xp.generator(0)
            copied.set_state(generator._own.get_state())
        return self.copies[generator]


class _Noting:
    """A stream that notes its position at each draw."""

    def __init__(self, stream: Any, positions: list[Any]) -> None:
        self._stream, self._positions = stream, positions

    def noted(self, kind: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
        """Draw, and return the position before with what was drawn."""
        position, drawn = self._stream.noted(kind, arguments)
        self._positions.append(position)
        return position, drawn

    def __getattr__(self, kind: str) -> Any:
        return lambda *arguments: self.noted(kind, arguments)[1]


def _unlike(amount: str) -> GraphStateError:
    return GraphStateError(
        f"the recomputation draws {amount} random numbers than the first computation",
        operation="checkpoint",
        expected="a function that does the same each time it is called",
        found="other draws",
        remedy="let nothing that changes between forward and backward decide what is drawn",
    )
