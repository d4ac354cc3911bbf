"""The page's requests to AWS: on a few threads, once for all viewers, and cached for a moment."""

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
"""Seconds for which an answer or an error is cached."""
FORGET = 120.0
"""Seconds after which an unused answer is dropped."""

logger = logging.getLogger(__name__)


@dataclass
class Entry:
    """A cached answer."""

    answer: asyncio.Task[Any]
    until: float
    """The end of its freshness."""
    wanted: float
    """The time of the last request for it."""


class Cache:
    """The cache of the yard that `find` returns.

    `find` creates a session for each thread, because boto3's sessions are not thread-safe. A session that AWS rejects
    is dropped, so that the next request uses the credentials of a new `aws sso login`.
    """

    def __init__(self, find: Callable[[], Yard]) -> None:
        self._find = find
        self._own = threading.local()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="aws")
        self._known: dict[Hashable, Entry] = {}
        self._last: dict[Hashable, asyncio.Task[Any]] = {}

    async def fetch(
        self,
        key: Hashable,
        question: Callable[[Yard], Answer],
        fresh: float | Callable[[Answer], float] = FRESH,
    ) -> Answer:
        """Return the answer, at most `fresh` seconds old. Raises YardError, also for other errors, which are logged."""
        now = time.monotonic()
        entry = self._known.get(key)
        if entry is None or (entry.answer.done() and now >= entry.until):
            self._forget(now)
            entry = Entry(asyncio.ensure_future(self.do(question)), now, now)
            entry.answer.add_done_callback(lambda answer: self._keep(entry, answer, fresh))
            self._known[key] = entry
        entry.wanted = now
        return await asyncio.shield(entry.answer)  # a viewer that goes away must not cancel it for the others

    async def glimpse(
        self, key: Hashable, question: Callable[[Yard], Answer], fresh: float, seconds: float
    ) -> Answer | None:
        """Return the last answer, however old, and read it again in the background if it is not fresh.

        Before the first answer, wait for at most these seconds, then return None. Raises the error of the last read.
        """
        reads: asyncio.Task[Answer] = asyncio.ensure_future(self.fetch(key, question, fresh))
        reads.add_done_callback(lambda read: self._last.__setitem__(key, read))
        if key not in self._last:
            await asyncio.wait({reads}, timeout=seconds)
        last: asyncio.Task[Answer] | None = reads if reads.done() else self._last.get(key)
        return last.result() if last else None

    async def do(self, question: Callable[[Yard], Answer]) -> Answer:
        """Run a question without the cache, e.g. an action."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._put, question)

    async def do_apart(self, question: Callable[[Yard], Answer]) -> Answer:
        """Run a question with a new session, for an answer that sends more requests later."""
        return await self.do(lambda _: question(self._find()))

    def stale(self, *keys: Hashable) -> None:
        """Drop these answers after an action."""
        for key in keys:
            self._known.pop(key, None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def yard(self) -> Yard:
        """Return this thread's yard."""
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
            logger.exception("a request of the page has failed")
            raise YardError(
                f"the page has failed: {type(error).__name__}: {error}",
                "this is a bug in the page; its terminal shows the traceback",
                f"send it to the operator of your yard; {command_line('show', 'RUN')} works without the page",
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
