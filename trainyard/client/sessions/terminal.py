"""The terminal of this process as the terminal of a remote shell, which receives each key at once, and the size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from trainyard.datachannel.message import Size

END_OF_INPUT = b"\x04"
READ = 1 << 16
WAIT_SECONDS = 0.01


class Terminal:
    """A terminal that is in raw mode inside the block and is restored afterwards.

    Without a terminal, the content of standard input is sent and nothing is changed.
    """

    def __init__(self, keys: int = 0, screen: int = 1) -> None:
        self.leave_typed = asyncio.Event()
        """Set once the user has typed the keys that leave the session: Enter, ~ and a full stop."""
        self._keys, self._screen = keys, screen
        self._before: list[Any] | None = None
        self._escape = Escape()
        self._sent_size: Size | None = None
        self._send_size: Callable[[], None] = lambda: None
        self._answered = threading.Event()

    def __enter__(self) -> Self:
        if os.isatty(self._keys):
            self._before = termios.tcgetattr(self._keys)
            tty.setraw(self._keys)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def mark_answered(self) -> None:
        """Record that the host has sent output. A file or a pipe is read only from then on."""
        self._answered.set()

    @property
    def size(self) -> Size | None:
        """Return the size of the terminal, or None without a terminal."""
        try:
            columns, rows = os.get_terminal_size(self._screen)
        except OSError:
            return None
        return Size(columns, rows)

    @contextlib.contextmanager
    def pass_input(self, take: Callable[[bytes], bool]) -> Iterator[None]:
        """Pass the input to `take` inside the block. `take` returns True if it has room for more."""
        if self._before is None:
            yield from self._read(take)
            return
        loop = asyncio.get_running_loop()

        def key() -> None:
            self._send_size()
            data = os.read(self._keys, READ)
            typed, leaves = self._escape.feed(data)
            if leaves or not data:
                loop.remove_reader(self._keys)
                self.leave_typed.set()
            if typed:
                take(typed)

        loop.add_reader(self._keys, key)
        try:
            yield
        finally:
            loop.remove_reader(self._keys)

    @contextlib.contextmanager
    def pass_size(self, take: Callable[[Size], None]) -> Iterator[None]:
        """Pass the size to `take` inside the block: now, at each change, and before keys that are typed after a change.
        asyncio may report a key before the signal."""
        loop = asyncio.get_running_loop()

        def say() -> None:
            size = self.size
            if size is not None and size != self._sent_size:
                self._sent_size = size
                take(size)

        self._send_size = say
        loop.add_signal_handler(signal.SIGWINCH, say)
        say()
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)

    def _read(self, take: Callable[[bytes], bool]) -> Iterator[None]:
        """Read a file or a pipe, which may be slow or endless, in a thread that ends with the process."""
        loop, over = asyncio.get_running_loop(), threading.Event()

        async def typed(data: bytes) -> bool:
            return take(data)

        def read() -> None:
            self._answered.wait()  # bash discards input before its first prompt
            while not over.is_set():
                data = os.read(self._keys, READ)
                room = asyncio.run_coroutine_threadsafe(typed(data or END_OF_INPUT), loop).result()
                if not data:
                    return
                if not room:
                    over.wait(WAIT_SECONDS)

        threading.Thread(target=read, name="standard input", daemon=True).start()
        try:
            yield
        finally:
            over.set()
            self._answered.set()


class Escape:
    """The keys that leave an unresponsive session, as in ssh: Enter, ~ and a full stop."""

    def __init__(self) -> None:
        self._at_start = True
        self._held = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return the bytes to send, and True if the user leaves the session. A tilde after Enter is held until the next
        key."""
        sent = bytearray()
        for key in data:
            if self._held:
                self._held = False
                if key == ord("."):
                    return bytes(sent), True
                if key != ord("~"):
                    sent.append(ord("~"))
            elif self._at_start and key == ord("~"):
                self._held = True
                continue
            sent.append(key)
            self._at_start = key in b"\r\n"
        return bytes(sent), False
