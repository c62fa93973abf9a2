"""What errors advise: the names that other libraries have, calls that do not fit, what leaves the tape.

Its modules are read when there is an error, or by modules that load late themselves.
"""

from collections.abc import Callable


def unknown_name(namespace: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module: an unknown name is answered with the one that is meant."""

    def refuse(name: str) -> object:
        from everyo.guidance.names import missing

        raise AttributeError(missing(name, namespace), name=name)

    return refuse
