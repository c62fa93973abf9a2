"""What the demo shows on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any


class Screen:
    """The terminal, or nothing at all if quiet."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console

        self.console = Console(quiet=quiet, highlight=False)

    def busy(self, what: str) -> AbstractContextManager[Any]:
        """Show that something short is going on."""
        return self.console.status(f"{what} ...")

    def intro(self, train: int, held_out: int, parameters: int, checked: int) -> None:
        """Say what is going to be trained."""
        self.console.print(
            f"A network of {parameters:,} parameters learns from {train:,} digits; {held_out} are held out."
        )
        self.console.print(
            f"[green]Gradients checked:[/] all {checked} of a small copy agree with differences."
        )

    @contextmanager
    def progress(self, steps: int) -> Iterator[Callable[..., None]]:
        """Show a bar; yield the function that moves it on and updates what stands beside it."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("epoch {task.fields[epoch]:>2}"),
            BarColumn(bar_width=None),
            TextColumn("loss {task.fields[loss]:.3f}  accuracy {task.fields[accuracy]:.1%}"),
            TextColumn("[bold]held out {task.fields[held_out]:.1%}"),
            TimeRemainingColumn(),
            console=self.console,
        )
        with bar:
            task = bar.add_task("", total=steps, epoch=1, loss=float("nan"), accuracy=0.0, held_out=0.0)

            def show(steps: int = 0, **fields: Any) -> None:
                bar.update(task, advance=steps, **fields)

            yield show

    def stopped(self) -> None:
        """Say that nothing has been learned yet."""
        self.console.print("Interrupted before the first step; nothing was written.")

    def outro(self, accuracy: float, target: float, finished: bool, seconds: float, folder: Path) -> None:
        """Say what came out."""
        reached = accuracy >= target
        self.console.print(
            f"{'' if finished else 'Interrupted. '}Held-out accuracy: "
            f"[bold {'green' if reached else 'yellow'}]{accuracy:.1%}[/] after {seconds:.1f} s."
        )
        if finished and not reached:
            self.console.print(f"[yellow]That is below {target:.0%}:[/] more epochs would help.")
        self.console.print(f"Weights, metrics and pictures are in {folder}/.", soft_wrap=True)
