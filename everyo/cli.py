"""The `everyo` command."""

import sys
from typing import Annotated, Any


def main() -> None:
    """Run the command line; a missing extra, a wrong argument or Ctrl-C ends it without a traceback."""
    try:
        application()()
    except KeyboardInterrupt:
        sys.exit(130)


def application() -> Any:
    """Return the typer application; whatever is heavy is imported by the command that needs it."""
    try:
        import typer
    except ImportError:
        from everyo.errors import install

        sys.exit(f"The everyo command needs the typer package: {install('cli')}")

    app = typer.Typer(
        add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )

    def show_version(asked: bool) -> None:
        if asked:
            from everyo import __version__

            typer.echo(f"everyo {__version__}")
            raise typer.Exit

    @app.callback()
    def everyo(
        version: Annotated[
            bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
        ] = False,
    ) -> None:
        """EveryO: exact derivatives of NumPy-style code."""

    @app.command()
    def demo(
        epochs: Annotated[int, typer.Option(min=1, help="How often to go through the examples.")] = 30,
        seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
        out: Annotated[str, typer.Option(help="Where the files go.")] = "everyo-demo",
        quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    ) -> None:
        """Train a small network on handwritten digits."""
        from everyo.errors import EveryOError

        try:
            from everyo.demo.run import run
            from everyo.demo.train import Config

            code = run(Config(epochs=epochs, seed=seed), out, quiet)
        except EveryOError as error:
            sys.exit(str(error))
        except OSError as error:
            sys.exit(f"everyo demo: {error}")
        except KeyboardInterrupt:
            code = 130
        raise typer.Exit(code)

    _add_cache(app)
    return app


def _add_cache(app: Any) -> None:
    """Add the commands for the programs that `everyo.compile` keeps on disk."""
    import typer

    commands = typer.Typer(no_args_is_help=True, help="The compiled programs that are kept on disk.")
    app.add_typer(commands, name="cache")

    @commands.command()
    def clear() -> None:
        """Remove all compiled programs."""
        from everyo.compiler import cache

        count = cache.clear()
        typer.echo(f"{count} program{'' if count == 1 else 's'} removed from {cache.folder()}")

    @commands.command()
    def info() -> None:
        """Show where compiled programs are kept, how many there are and how large they are."""
        from everyo.compiler import cache

        found = cache.info()
        typer.echo(f"folder    {found.folder}{'' if found.enabled else ' (not in use: EVERYO_CACHE is off)'}")
        typer.echo(f"programs  {found.programs}")
        typer.echo(f"size      {found.size / 2**20:.1f} MiB of at most {cache.LIMIT / 2**20:.0f} MiB")
