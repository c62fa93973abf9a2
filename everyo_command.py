"""The start of the `everyo` command: outside the package, so that Ctrl-C is heard while it is imported."""

import os
import signal


def main() -> None:
    """Import the package and run its command line; Ctrl-C ends it with code 130 at any time."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # an exception would reach the user as that of some import
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from everyo.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
