"""``python -m everyo``: the `everyo` command."""

from everyo.cli import main

if __name__ == "__main__":
    main()
