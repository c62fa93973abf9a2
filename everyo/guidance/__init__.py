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


def refuse_setting(name: str) -> Callable[[object, object], None]:
    """Return the setter of a property that has none: the error says what to write in its place."""

    def refuse(instance: object, value: object) -> None:
        from everyo.guidance.names import unsettable

        raise AttributeError(unsettable(name, type(instance).__name__), name=name)

    return refuse


class OfUfuncs:
    """In the place of a method of NumPy's ufuncs: there is none, and the call says what does the same."""

    def __init__(self, name: str, function: str) -> None:
        self.name, self.function = name, function

    def __call__(self, *args: object, **options: object) -> None:
        from everyo.guidance.names import missing_of_ufuncs

        raise AttributeError(missing_of_ufuncs(self.name, self.function), name=self.name)


class Elsewhere:
    """In the place of a method that other libraries have: there is none, and the error says what is.

    A ``__getattr__`` would slow the reading of all attributes, and hide the AttributeError of a property.
    """

    def __init__(self, name: str, table: str) -> None:
        self.name, self.table = name, table

    def __get__(self, instance: object, owner: type) -> object:
        from everyo.guidance.names import missing_method

        raise AttributeError(missing_method(self.name, owner.__name__, self.table), name=self.name)
