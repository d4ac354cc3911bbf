"""Dataclasses whose code is made at their first use, not at import.

`dataclasses.dataclass` compiles six methods for each class, half a millisecond of every cold start for classes of which
a function uses a third. Once used, a class is the same as that decorator makes it.
"""

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """As the standard library's, but for `slots`, which needs another class."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        make = _Maker(cls, options)
        cls.__init__ = lambda self, *given, **named: make().__init__(self, *given, **named)
        cls.__dataclass_fields__ = _MadeWhenRead(make, "__dataclass_fields__")
        cls.__match_args__ = _MadeWhenRead(make, "__match_args__")
        return cls


_LOCK = threading.RLock()
"""A class and those above it are made in one go."""


class _Maker:
    """Makes the class once, whoever asks first, and answers it."""

    def __init__(self, cls: type, options: dict[str, Any]) -> None:
        self._cls, self._options, self._is_made = cls, options, False

    def __call__(self) -> Any:
        with _LOCK:
            if not self._is_made:
                self._is_made = True
                for name in ("__init__", "__dataclass_fields__", "__match_args__"):
                    delattr(self._cls, name)
                dataclasses.dataclass(**self._options)(self._cls)
        return self._cls


class _MadeWhenRead:
    """An attribute of a class that is there once the class is made."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make, self._name = make, name

    def __get__(self, holder: object, owner: type) -> Any:
        return getattr(self._make(), self._name)
