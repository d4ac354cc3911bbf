"""Where every question of the page is put to AWS: on a few threads, once however many ask it, and kept for a moment."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from trainyard.client import Yard, YardError
from trainyard.client.errors import NoCredentials, as_answered
from trainyard.command_line import command_line

Answer = TypeVar("Answer")
THREADS = 4
FRESH = 2.0
"""Seconds for which an answer, or an error, is as good as a new one."""
FORGET = 120.0
"""Seconds after which an answer that nobody asks for again is let go."""

logger = logging.getLogger(__name__)


@dataclass
class Entry:
    """One question: its answer, or the one under way, until when that is fresh, and when it was asked for last."""

    answer: asyncio.Task[Any]
    until: float
    wanted: float


class Cache:
    """`find` answers the yard, with a session of its own each time: boto3's are one thread's. A session that AWS does
    not accept is given up, so that the next question finds what `aws sso login` has brought."""

    def __init__(self, find: Callable[[], Yard]) -> None:
        self._find = find
        self._own = threading.local()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="aws")
        self._known: dict[Hashable, Entry] = {}

    async def ask(
        self,
        key: Hashable,
        question: Callable[[Yard], Answer],
        fresh: float | Callable[[Answer], float] = FRESH,
    ) -> Answer:
        """The answer, at most so many seconds old. Raises YardError; of another error, too, which is written down."""
        now = time.monotonic()
        entry = self._known.get(key)
        if entry is None or (entry.answer.done() and now >= entry.until):
            self._forget(now)
            entry = Entry(asyncio.ensure_future(self.do(question)), now, now)
            entry.answer.add_done_callback(lambda answer: self._keep(entry, answer, fresh))
            self._known[key] = entry
        entry.wanted = now
        return await asyncio.shield(entry.answer)  # who goes away leaves the others their answer

    async def do(self, question: Callable[[Yard], Answer]) -> Answer:
        """The same, anew and for this one alone: what changes something."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._put, question)

    async def alone(self, question: Callable[[Yard], Answer]) -> Answer:
        """The same with a yard of its own, for an answer that goes on asking."""
        return await self.do(lambda _: question(self._find()))

    def stale(self, *keys: Hashable) -> None:
        """Something was done: the next who asks any of these is answered anew."""
        for key in keys:
            self._known.pop(key, None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def yard(self) -> Yard:
        """This thread's own."""
        if not hasattr(self._own, "yard"):
            self._own.yard = self._find()
        found: Yard = self._own.yard
        return found

    def _put(self, question: Callable[[Yard], Answer]) -> Answer:
        try:
            return question(self.yard())
        except NoCredentials:
            self._own.__dict__.pop("yard", None)
            raise
        except ClientError as error:
            raise as_answered(error) from error
        except YardError:
            raise
        except Exception as error:
            logger.exception("a question of the page has failed")
            raise YardError(
                f"the page has failed: {type(error).__name__}: {error}",
                "this is a fault of the page; the terminal that it runs in says where",
                f"send that to whoever looks after your yard; {command_line('show', 'RUN')} does without the page",
            ) from error

    @staticmethod
    def _keep(entry: Entry, answer: asyncio.Task[Answer], fresh: float | Callable[[Answer], float]) -> None:
        failed = answer.cancelled() or answer.exception() is not None
        seconds = FRESH if failed else fresh(answer.result()) if callable(fresh) else fresh
        entry.until = time.monotonic() + seconds

    def _forget(self, now: float) -> None:
        gone = [
            key for key, entry in self._known.items() if entry.answer.done() and now - entry.wanted > FORGET
        ]
        for key in gone:
            del self._known[key]
