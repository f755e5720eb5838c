"""`record`, the decorator of all records; their ids, and the clock.

`@record` behaves like a frozen, slotted, keyword-only dataclass. It exists because importing `dataclasses` and
creating a dozen of them takes longer than the rest of a cold start (docs/decisions/0003), so nothing here may
import that module.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar, dataclass_transform

    R = TypeVar("R")

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    def record(cls: type[R]) -> type[R]:
        """Declare `record` for type checkers; implemented below."""
        return cls

    def replace(instance: R, /, **changes: object) -> R:
        """Declare `replace` for type checkers; implemented below."""
        return instance

else:

    class _Record:
        """Base class with the methods of all records.

        Generating them per class, as dataclasses do, would add a millisecond to a cold start.
        """

        __slots__ = ()

        def __init__(self, **kwargs):
            setters, defaults = self._layout
            values = kwargs if len(kwargs) == len(setters) else {**defaults, **kwargs}
            if len(values) != len(setters):
                raise _argument_error(self, kwargs)
            try:
                for name, set_value in setters:
                    set_value(self, values[name])
            except KeyError:
                raise _argument_error(self, kwargs) from None

        def __setattr__(self, name, value=None):
            raise AttributeError(f"{self.__class__.__name__} is frozen: use replace()")

        __delattr__ = __setattr__

        def __eq__(self, other):
            return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash(_values(self))

        def __repr__(self):
            return f"{self.__class__.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"

    def _values(instance):
        return tuple(getattr(instance, name) for name in instance.__slots__)

    def _argument_error(instance, kwargs):
        names, defaults = set(instance.__slots__), instance._layout[1]
        if missing := names - defaults.keys() - kwargs.keys():
            return TypeError(f"{instance.__class__.__name__}: missing {', '.join(sorted(missing))}")
        return TypeError(f"{instance.__class__.__name__}: unexpected {', '.join(sorted(kwargs.keys() - names))}")

    def record(cls):
        """Return a frozen, slotted, keyword-only version of a class with annotated fields."""
        names = tuple(cls.__annotations__)
        namespace = dict(cls.__dict__)
        defaults = {name: namespace.pop(name) for name in names if name in namespace}
        namespace.pop("__dict__", None)
        namespace.pop("__weakref__", None)
        namespace["__slots__"] = names
        slotted = type(cls.__name__, (_Record,), namespace)
        slotted._layout = [(name, slotted.__dict__[name].__set__) for name in names], defaults
        return slotted

    def replace(instance, /, **changes):
        """Return a copy of a record with some fields changed."""
        return type(instance)(**{name: getattr(instance, name) for name in instance.__slots__} | changes)


def record_fields(instance: object) -> dict[str, Any]:
    """Return a record's fields by name, in order. Nested records are not converted."""
    return {name: getattr(instance, name) for name in instance.__slots__}  # type: ignore[attr-defined]


def timestamp(seconds: float) -> str:
    """Format Unix seconds as a fixed-width UTC ISO 8601 timestamp, which sorts chronologically as text."""
    whole = int(seconds // 1)
    milliseconds = int((seconds - whole) * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{milliseconds:03d}Z"


def now() -> str:
    """Return the current time as a timestamp."""
    return timestamp(time.time())


EPISODE_PREFIX = "ep-"
"""Prefix of the ids of episodes, which follow from what they quote."""


def new_task_id() -> str:
    """Return a new task id, `t-{6 hex}`."""
    return "t-" + os.urandom(3).hex()


def new_feature_id() -> str:
    """Return a new feature id, `f-{6 hex}`."""
    return "f-" + os.urandom(3).hex()


def new_run_id() -> str:
    """Return a new run id, `run-{8 hex}`."""
    return "run-" + os.urandom(4).hex()


def new_memory_id() -> str:
    """Return a new memory id, `mem-{unix}-{4 hex}`."""
    return f"mem-{int(time.time())}-{os.urandom(2).hex()}"
