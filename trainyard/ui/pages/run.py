"""The page of one run: state, timeline, capacity search, hosts, log, results and cost."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any

from trainyard.client import Run, RunStatus, Yard, YardError
from trainyard.client.errors import RunNotFound
from trainyard.client.inventory.hosts import YardHost
from trainyard.client.runs import use
from trainyard.client.runs.logs import LogLine
from trainyard.client.runs.metric_points import MetricPoints
from trainyard.client.runs.reasons import REFUSED, Reason, reason_for
from trainyard.client.runs.records import AnsweredRequest
from trainyard.client.runs.usage import Usage, usage_of
from trainyard.command_line import command_line
from trainyard.core.model.schedule import When
from trainyard.protocol import keys
from trainyard.protocol.schedules import schedule_of
from trainyard.protocol.trial import study_of
from trainyard.ui import timeline
from trainyard.ui.cache import FRESH, Cache
from trainyard.ui.pages.hosts import FRESH as HOSTS_FRESH
from trainyard.ui.pages.hosts import all_hosts
from trainyard.ui.pages.page import Page, PageEvent, Seen
from trainyard.ui.polling import RunLog
from trainyard.ui.usage import charts_of, hosts_of, own_charts
from trainyard.values import floats
from trainyard.values.quantities import span
from trainyard.values.text import printable

OVER_FRESH = 10.0
"""Seconds for a run that has ended. Its last hosts may still send signals while they shut down."""
FILES_FRESH = 5.0
USAGE_FRESH = 60.0
"""Seconds. CloudWatch bills each request, and has new values once a minute."""
USAGE_OVER_FRESH = 600.0
FEEDS = 64
MOST_FOUND = 1_000
"""The most lines that a search shows."""
PARTS = ("model", "outputs", "checkpoints", "logs", "tensorboard", "notebook", "attempts")
DOCUMENTS = (
    "job.json", "plan.json", "metrics.json", "summary.json", "timeline.jsonl", "recipe.json", "tests.json", "sbom.json",
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A run at one moment."""

    status: RunStatus
    reason: Reason
    summary: Mapping[str, Any]
    """Empty until the run has ended."""

    @property
    def is_over(self) -> bool:
        return self.status.execution.is_over

    @property
    def arguments(self) -> str:
        """Return the program's arguments: `lr=0.1 epochs=3`, or the words of a list."""
        args = (self.status.job.get("program") or {}).get("args") or {}
        if isinstance(args, Mapping):
            return " ".join(f"{name}={value}" for name, value in args.items())
        return shlex.join(map(str, args))

    @property
    def starts_after(self) -> tuple[str, ...]:
        """Return the runs that must end before the run starts."""
        return tuple(map(str, (self.status.job.get("start_after") or {}).get("runs") or ()))

    @property
    def starts_after_any_end(self) -> bool:
        return (self.status.job.get("start_after") or {}).get("when") == When.END

    @property
    def environment(self) -> str:
        """Return the image of the hosts, the container by its digest, and the packages that the job installs."""
        row, program = self.status.row, self.status.job.get("program") or {}
        container = program.get("container") or {}
        parts = (
            (row.image_id if row else None) or "",
            str(container.get("image", container) if isinstance(container, Mapping) else container)
            if container
            else "",
            str(program.get("requirements") or ""),
        )
        return " · ".join(filter(None, parts))

    @property
    def remaining(self) -> str:
        """Return the remaining time at the current pace, or the limit that comes first."""
        progress, now = self.status.progress, self.status.at
        if self.is_over or not progress or not progress.steps_per_second or progress.step >= progress.steps:
            return ""
        seconds = (progress.steps - progress.step) / progress.steps_per_second
        hours = (self.status.job.get("limits") or {}).get("hours")
        if hours is not None:
            left = float(hours) * 3600 - (now - self.status.execution.started).total_seconds()
            if seconds > left:
                return f"{span(seconds)} remaining, but the limit of {span(float(hours) * 3600)} comes first"
        return f"{span(seconds)} remaining"

    @property
    def money(self) -> tuple[float, float]:
        """Return the cost in dollars, and the savings by spot."""
        return self.status.dollars, self.status.saved_dollars


@dataclass(frozen=True)
class PoolAnswers:
    """The answers of a capacity pool to launch requests."""

    name: str
    price: float | None
    requests: int
    last: AnsweredRequest | None

    @property
    def word(self) -> str:
        if self.last is None:
            return "not tried"
        return REFUSED.get(self.last.kind, self.last.kind) if self.last.kind else self.last.answer or "asked"


@dataclass(frozen=True)
class RunFile:
    """A file or folder in the run's bucket folder, e.g. `model/` or `summary.json`."""

    name: str
    count: int
    size: int


@dataclass(frozen=True)
class RunPage(Page):
    """The page of the run with this ID."""

    run: str

    name, title = "run", "Run"
    parts = ("head", "figures", "timeline", "progress", "pools", "attempts", "hosts", "results", "events")

    async def look(self, cache: Cache) -> Seen:
        picture = await cache.fetch(self.key, self._picture, _fresh)
        seen: Seen = {
            "picture": picture,
            "status": picture.status,
            "run": self.run,
            "schedule": self.schedule,
        }
        asked: dict[str, Callable[[Cache, Picture], Awaitable[Any]]] = {
            "verdicts": self._verdicts,
            "results": self._list_files,
            "log": self._log,
            "usage": self._usage,
        }
        answers = await asyncio.gather(
            *(ask(cache, picture) for ask in asked.values()), return_exceptions=True
        )
        troubles = []
        for name, answer in zip(asked, answers, strict=True):
            if isinstance(answer, YardError):  # an error in one part leaves the others
                troubles.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            seen[name] = None if isinstance(answer, YardError) else answer
        return {
            **seen,
            "troubles": troubles,
            "line": timeline.line_of(picture.status),
            "pools": pools_of(picture.status),
        }

    def list_events(self, seen: Seen, sent: dict[str, Any], last: str) -> Iterator[PageEvent]:
        if "status" in seen:
            yield from _metrics(seen["status"].samples, sent)
        if seen.get("log"):
            yield from _lines(seen["log"], sent, last)
        if seen.get("usage"):
            yield from _usage(seen["usage"], sent)

    @property
    def study(self) -> str | None:
        """Return the study of a trial; None for another run."""
        return study_of(self.run)

    @property
    def schedule(self) -> str | None:
        """Return the schedule that started the run; None for another run."""
        return schedule_of(self.run)

    @property
    def key(self) -> tuple[str, str]:
        """Return the cache key of the run."""
        return "run", self.run

    async def own_usage(self, cache: Cache, host: str) -> list[dict[str, Any]]:
        """Return the charts of one host of many. Raises YardError."""
        picture = await cache.fetch(self.key, self._picture, _fresh)
        return own_charts(await self._usage(cache, picture), host)

    def _picture(self, yard: Yard) -> Picture:
        run = find_run(yard, self.run)
        status = run.status()
        summary = run.summary if status.execution.is_over else {}
        reason = reason_for(status.execution, status.row, summary, saved=status.has_saved, now=status.at)
        return Picture(status, reason, summary)

    async def _verdicts(self, cache: Cache, picture: Picture) -> dict[str, YardHost]:
        hosts = await cache.fetch("hosts", all_hosts, HOSTS_FRESH)
        return {host.instance: host for host in hosts}

    async def _list_files(self, cache: Cache, picture: Picture) -> list[RunFile]:
        fresh = OVER_FRESH if picture.is_over else FILES_FRESH
        return await cache.fetch(("results", self.run), lambda yard: list_run_files(yard, self.run), fresh)

    async def _usage(self, cache: Cache, picture: Picture) -> tuple[Usage, ...]:
        hosts, now = picture.status.hosts, picture.status.at
        fresh = USAGE_OVER_FRESH if picture.is_over else USAGE_FRESH

        def look(yard: Yard) -> tuple[Usage, ...]:
            recorded = use.use_of(yard, self.run, picture.status.attempt)
            return (*usage_of(yard.session, hosts, now), *use.charts_of(recorded))

        return await cache.fetch(("usage", self.run), look, fresh)

    async def _log(self, cache: Cache, picture: Picture) -> RunLog:
        log, over, builder = (
            log_of(cache, self.run),
            picture.is_over,
            picture.status.kind == "bake",
        )
        look = partial(log.look, builder=builder, over=over)
        return await cache.fetch(("log", self.run), look, _fresh(picture))


@lru_cache(FEEDS)
def log_of(cache: Cache, run: str) -> RunLog:
    """Return the log that all viewers of the run share."""
    return RunLog(run)


def find_run(yard: Yard, run: str) -> Run:
    """Return the run with this ID. Raises RunNotFound."""
    row = yard.row(run)
    if row is not None:
        return Run(yard, row.execution_arn)
    begun = yard.run(run)
    states = yard.session.client("stepfunctions")
    try:
        begun.execution  # noqa: B018 - raises if the execution does not exist
    except (states.exceptions.ExecutionDoesNotExist, states.exceptions.InvalidArn) as error:
        raise RunNotFound(
            f"the yard {yard.name} has no run {printable(run, 80)}",
            "it may belong to another yard, or may not have started yet",
            command_line("ls"),
        ) from error
    return begun


def find_lines(yard: Yard, run: str, text: str) -> list[LogLine]:
    """Return the first lines with this text, of all hosts and attempts. Raises NothingFound."""
    found = islice(find_run(yard, run).find_lines(text), MOST_FOUND)
    return [replace(line, text=printable(line.text)) for line in found]


def list_run_files(yard: Yard, run: str) -> list[RunFile]:
    """Return the contents of the run's bucket folder, the most useful first."""
    prefix = keys.run(run)
    sums: dict[str, tuple[int, int]] = {}
    for key, size in yard.bucket.keys(prefix).items():
        name, slash, _ = key.removeprefix(prefix).partition("/")
        count, total = sums.get(name + slash, (0, 0))
        sums[name + slash] = count + 1, total + size
    wanted = [f"{part}/" for part in PARTS] + list(DOCUMENTS)
    names = [name for name in wanted if name in sums]
    return [RunFile(name, *sums[name]) for name in names]


def pools_of(status: RunStatus) -> list[PoolAnswers]:
    """Return the capacity pools of the plan in order, with their answers."""
    answers: dict[str, list[AnsweredRequest]] = {}
    for each in status.launch_requests:
        answers.setdefault(each.pool, []).append(each)
    prices = {pool.name: pool.price for pool in status.pools}
    names = dict.fromkeys((*prices, *answers))
    return [
        PoolAnswers(
            name, prices.get(name), len(answers.get(name, ())), answers[name][-1] if name in answers else None
        )
        for name in names
    ]


def _fresh(picture: Picture) -> float:
    return OVER_FRESH if picture.is_over and picture.summary else FRESH


def _metrics(samples: Mapping[str, MetricPoints], sent: dict[str, Any]) -> Iterator[PageEvent]:
    """Yield the new points of each metric. Yield all its points if earlier ones have changed, because samples are
    thinned out."""
    before, changes = sent.setdefault("metrics", {}), {}
    for name, points in samples.items():
        count, newest = before.get(name, (0, ""))
        length = len(points.steps)
        continues = 0 < count <= length and _describe(points, count - 1) == newest
        if not continues or count < length:
            before[name] = length, _describe(points, length - 1)
            changes[name] = {"whole": not continues, **columns(points, count if continues else 0)}
    if changes:
        yield PageEvent("metrics", changes)


def _describe(points: MetricPoints, at: int) -> str:
    """Return a point as a text, because NaN does not equal itself."""
    return f"{points.steps[at]} {points.values[at]}"


def _usage(usage: Sequence[Usage], sent: dict[str, Any]) -> Iterator[PageEvent]:
    """Yield the curves of the hosts, if any is new."""
    newest = [(each.measure.title, each.times[-1], len(each.times), len(each.hosts)) for each in usage]
    if sent.get("usage") != newest:
        sent["usage"] = newest
        yield PageEvent("usage", {"charts": charts_of(usage), "hosts": hosts_of(usage)})


def columns(points: MetricPoints, first: int = 0) -> dict[str, list[Any]]:
    """Return a curve from this point on as the page's charts take it. Texts stand for values that are not finite."""
    return {
        "steps": points.steps[first:],
        "values": floats.with_texts(points.values[first:]),
        "times": points.times[first:],
        "epochs": points.epochs[first:],
    }


def _lines(log: RunLog, sent: dict[str, Any], last: str) -> Iterator[PageEvent]:
    """Yield the new lines. A page without lines gets all cached lines."""
    before = sent.get("log")
    if before is None and last.isdecimal() and int(last) <= log.total:
        before = int(last)
    if before is None or log.total > before:
        sent["log"] = log.total
        lines = [
            [line.at.isoformat(), line.host, line.attempt, printable(line.text)]
            for line in log.since(before or 0)
        ]
        yield PageEvent("log", {"whole": before is None, "lines": lines}, str(log.total))
