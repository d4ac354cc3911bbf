"""Terminate a session, however its command ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterable

from trainyard.client.sessions.link import Link

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.asynccontextmanager
async def terminate_afterwards(link: Link, signals: Iterable[signal.Signals] = ENDS) -> AsyncIterator[None]:
    """Run the block, and terminate the session if it is open afterwards. Raise KeyboardInterrupt at one of the
    signals."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True
        task.cancel()

    caught = [number for number in signals if _catch(loop, number, end)]
    try:
        yield
    except asyncio.CancelledError:
        if not ended:
            raise
        task.uncancel()
        raise KeyboardInterrupt from None
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
        if link.channel.closed is None:
            await link.terminate()


def _catch(loop: asyncio.AbstractEventLoop, number: signal.Signals, end: Callable[[], None]) -> bool:
    """Return True if the signal can be caught, which only the main thread can do."""
    try:
        loop.add_signal_handler(number, end)
    except (ValueError, RuntimeError, NotImplementedError):
        return False
    return True
