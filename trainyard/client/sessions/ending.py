"""How a session ends from this side: it is terminated, whatever ends the command."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterable

from trainyard.client.sessions.link import Link

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.asynccontextmanager
async def until_ended(link: Link, signals: Iterable[signal.Signals] = ENDS) -> AsyncIterator[None]:
    """The block, until it is done or one of the signals comes: then KeyboardInterrupt. A session that is not over by
    then is terminated."""
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
    """Whether the signal can be caught: in the main thread alone."""
    try:
        loop.add_signal_handler(number, end)
    except (ValueError, RuntimeError, NotImplementedError):
        return False
    return True
