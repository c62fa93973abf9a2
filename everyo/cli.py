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
        sys.exit("The everyo command needs the typer package: pip install 'everyo[cli]'")

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

    return app
