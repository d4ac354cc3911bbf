"""The decision table of patrol's verdict. Each row is one test, and one line of docs/patrol.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from lambdas.core.patrol.judgement import ObservedHost
from lambdas.core.patrol.usage import Window
from lambdas.core.patrol.verdict import Earlier
from tests.unit.core.builders import NOON, prices
from trainyard.core.model.yard.policy import IdleSpot, Policy
from trainyard.protocol.plan import Market
from trainyard.protocol.verdicts import Word


def minutes(n: float) -> timedelta:
    return timedelta(minutes=n)


def ago(n: float) -> datetime:
    return NOON - minutes(n)


def ahead(n: float) -> datetime:
    return NOON + minutes(n)


def window(at: float = 0.0, **known: float | None) -> Window:
    """Return half an hour at this percentage. `m3=...` sets another one for minute 3."""
    shares: list[float | None] = [at] * 30
    for name, share in known.items():
        shares[int(name[1:])] = share
    return Window(tuple(shares))


IDLE = window()
RESTING = Window((1.0,) * 5)
"""Processors that only an agent uses, one value for each five minutes."""
WORKING = Window((1.0, 25.0, 1.0, 1.0, 1.0))
"""Four processors, one of them busy for five minutes."""
SILENT = Window((None,) * 30)
HALF = Window((None,) * 15 + (0.0,) * 15)
LOST = {"run": "digits-1", "live": False}
"""The host of an unknown run."""
MINE = {"run": "notebook-1", "kind": "dev-host", "live": False, "ready": ago(60), "lease": ahead(660)}
"""The host of a launch that succeeded an hour ago, without a hold."""
DEV = {**MINE, "dev": "notebook", "window": IDLE, "use": IDLE}
"""A dev host whose agent reports no use."""
KEPT = {"run": "digits-1", "live": False, "stays": True}
"""The host of an ended run whose job keeps its hosts."""
SPOT = {"market": Market.SPOT}


def stopped(days: float, **more: Any) -> dict[str, Any]:
    return {**KEPT, "state": "stopped", "changed": NOON - timedelta(days=days), **more}


@dataclass(frozen=True)
class Case:
    """A host with its expected verdict. `word` is the verdict's (`ask`: the metrics decide); the reason has `says`."""

    name: str
    word: str
    says: str
    values: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    saves: float = 0.0

    def host(self) -> ObservedHost:
        """Return a g5.xlarge on demand that has run for a day, with the values of the case."""
        base = ObservedHost(
            instance="i-0abc",
            type="g5.xlarge",
            market=Market.ON_DEMAND,
            state="running",
            launched=ago(1440),
            price=1.006,
            prices=prices(),
            disk_gib=100,
            vcpus=4,
            processors=RESTING,
        )
        return replace(base, **{"policy": replace(Policy(), **self.policy), **self.values})


PRICE = 1.006

CASES = [
    # ------------------------------------------------------------------------------------------------ ending hosts
    Case(
        "a host that is shutting down is kept",
        "keep",
        "already shutting-down",
        {"state": "shutting-down"},
    ),
    Case("a host that is stopping is kept", "keep", "already stopping", {"state": "stopping", **LOST}),
    # -------------------------------------------------------------------------------------------------- a live run
    Case(
        "a host of a live run is kept, busy or idle",
        "keep",
        "its run digits-1 is running",
        {"run": "digits-1", "live": True, "window": IDLE},
    ),
    Case(
        "the idle hosts of a run that waited an hour for capacity are kept",
        "keep",
        "is running",
        {"run": "digits-1", "live": True, "launched": ago(70), "window": IDLE},
    ),
    Case(
        "a host of a live run without metrics is kept",
        "keep",
        "is running",
        {"run": "digits-1", "live": True, "window": SILENT},
    ),
    Case(
        "a builder is kept while its bake runs",
        "keep",
        "is running",
        {"run": "bake-1", "kind": "bake", "live": True},
    ),
    Case(
        "a host of a live run that looked like an orphan a minute ago is kept",
        "keep",
        "is running",
        {"run": "digits-1", "live": True, "earlier": Earlier(Word("warn-orphan"), ago(1))},
    ),
    # -------------------------------------------------------------------------------------------- the yard's limits
    Case(
        "a host that was started again beyond the limits of the yard is stopped, held or not",
        "stop-limits",
        "beyond the yard's limits: the yard has 1 at once",
        {**DEV, "refused": "the yard has 1 at once (most_hosts)", "held": ahead(60)},
        saves=PRICE,
    ),
    # ---------------------------------------------------------------------------------------------------- the pool
    Case(
        "a host that waits in the warm pool is kept",
        "keep",
        "it waits in the warm pool until 2026-11-20T12:10Z",
        {**LOST, "warm": ahead(10)},
    ),
    Case(
        "a host at the end of its time in the warm pool is an orphan",
        "warn-orphan",
        "its time in the warm pool ended",
        {**LOST, "warm": ago(1)},
    ),
    Case(
        "such a host is terminated after two passes",
        "terminate-orphan",
        "no run has claimed it",
        {**LOST, "warm": ago(2), "earlier": Earlier(Word("warn-orphan"), ago(1))},
        saves=PRICE,
    ),
    # ----------------------------------------------------------------------------------------------------- orphans
    Case(
        "an orphan is warned about in the first pass",
        "warn-orphan",
        "if the next patrol confirms that",
        LOST,
    ),
    Case(
        "an orphan is terminated in the second pass",
        "terminate-orphan",
        "two patrols in a row",
        {**LOST, "earlier": Earlier(Word("warn-orphan"), ago(1))},
        saves=PRICE,
    ),
    Case(
        "a spot orphan is terminated as well",
        "terminate-orphan",
        "two patrols in a row",
        {**LOST, **SPOT, "earlier": Earlier(Word("warn-orphan"), ago(1))},
        saves=PRICE,
    ),
    Case(
        "a pass that runs twice counts as one",
        "warn-orphan",
        "the next patrol",
        {**LOST, "earlier": Earlier(Word("warn-orphan"), NOON - timedelta(seconds=5))},
    ),
    Case(
        "a busy orphan is terminated: its results reach no run",
        "terminate-orphan",
        "two patrols",
        {**LOST, "window": window(at=99), "earlier": Earlier(Word("warn-orphan"), ago(1))},
        saves=PRICE,
    ),
    Case(
        "a host that was launched seconds ago may belong to a run that EC2 lists late",
        "keep",
        "may not be listed yet",
        {**LOST, "launched": ago(0.4)},
    ),
    Case(
        "half a minute is enough for that, so an orphan ends in the third pass at the latest",
        "warn-orphan",
        "it was launched for digits-1, and no execution of that name",
        {**LOST, "launched": ago(0.5)},
    ),
    Case(
        "a builder is an orphan after the end of its bake",
        "terminate-orphan",
        "bake-1",
        {"run": "bake-1", "kind": "bake", "earlier": Earlier(Word("warn-orphan"), ago(1))},
        saves=PRICE,
    ),
    Case(
        "a held host is not an orphan",
        "keep",
        "it is held until",
        {**LOST, "held": ahead(60), "earlier": Earlier(Word("warn-orphan"), ago(1))},
    ),
    # -------------------------------------------------------------------------------------------------- boot, leases
    Case(
        "a booting host without metrics is kept",
        "keep",
        "it started at 2026-11-20T11:55Z and boots until 2026-11-20T12:10Z",
        {**KEPT, "launched": ago(5), "window": SILENT},
    ),
    Case(
        "a host that was started again boots again",
        "keep",
        "boots until",
        {**KEPT, "launched": ago(2), "window": IDLE, "earlier": Earlier(Word("stop-idle"), ago(900))},
    ),
    Case(
        "an unused host of a launch is stopped after its window, hours before its lease ends",
        "stop-idle",
        "it is not held: it is stopped. It costs $1.02 an hour. Stopped: $8.00 a month",
        {**MINE, "window": IDLE},
        saves=PRICE,
    ),
    Case(
        "an unused host of a launch is archived if EC2 cannot stop it",
        "archive-idle",
        "so it is archived. It costs $1.02 an hour. Stopped: $8.00 a month for its disk of 100 GiB. Archived: at "
        "most $5.00 a month. Terminated: nothing",
        {**MINE, **SPOT, "window": IDLE},
        saves=PRICE,
    ),
    Case(
        "the window of a launched host begins when the launch has ended, however long the launch took",
        "keep",
        "it became usable at 2026-11-20T11:35Z, and is idle after 30 min without work",
        {**MINE, "launched": ago(55), "ready": ago(25), "window": IDLE},
    ),
    Case(
        "the window begins again when the host is started again",
        "keep",
        "it became usable at 2026-11-20T11:35Z",
        {**MINE, "launched": ago(25), "ready": ago(600), "window": IDLE},
    ),
    Case(
        "a launched host that computes is kept",
        "keep-busy",
        "at 87 %",
        {**MINE, "window": window(at=87)},
    ),
    Case(
        "a launched host with an open session is kept",
        "keep",
        "a session is open on it. It costs $1.02 an hour",
        {**MINE, "session": True, "window": IDLE},
    ),
    Case(
        "a held launched host is kept, whether the hold came with the launch or later",
        "keep",
        "it is held until 2026-11-20T13:00Z. It costs $1.02 an hour",
        {**MINE, "held": ahead(60), "window": IDLE},
    ),
    Case(
        "the host of a launch that broke off is an orphan",
        "terminate-orphan",
        "two patrols",
        {**MINE, "ready": None, "earlier": Earlier(Word("warn-orphan"), ago(1))},
        saves=PRICE,
    ),
    Case(
        "such a host is an orphan even if a user held it before",
        "terminate-orphan",
        "two patrols",
        {**MINE, "ready": None, "held": ago(1), "earlier": Earlier(Word("warn-orphan"), ago(1))},
        saves=PRICE,
    ),
    Case(
        "a host may take a quarter of an hour to leave by itself after its lease",
        "ask",
        "metrics decide",
        {**MINE, "lease": ago(5)},
    ),
    Case(
        "then the host is stopped, busy or idle",
        "stop-lease",
        "its lease ended at 2026-11-20T11:44Z",
        {**MINE, "lease": ago(16), "window": window(at=80)},
        saves=PRICE,
    ),
    Case(
        "then the host is archived if EC2 cannot stop it",
        "archive-lease",
        "cannot stop",
        {**MINE, **SPOT, "lease": ago(16)},
        saves=PRICE,
    ),
    Case(
        "a used host that was started again after its lease gets twelve hours more",
        "keep-busy",
        "at 80 %",
        {**MINE, "launched": ago(734), "lease": ago(735), "window": window(at=80)},
    ),
    Case(
        "and at most a quarter of an hour longer",
        "stop-lease",
        "its lease ended at 2026-11-20T11:45Z",
        {**MINE, "launched": ago(735), "lease": ago(736), "window": window(at=80)},
        saves=PRICE,
    ),
    Case(
        "a held idle host is kept",
        "keep",
        "it is held",
        {**KEPT, "held": ahead(1), "window": IDLE},
    ),
    Case(
        "an expired hold keeps no host",
        "stop-idle",
        "no GPU",
        {**KEPT, "held": ago(1), "window": IDLE},
        saves=PRICE,
    ),
    # ------------------------------------------------------------------------------------------------ users at work
    Case(
        "an open session keeps an idle host",
        "keep",
        "a session is open",
        {**KEPT, "session": True, "window": IDLE},
    ),
    Case(
        "a running command keeps an idle host",
        "keep",
        "a command is running",
        {**KEPT, "command": True, "window": IDLE},
    ),
    Case(
        "a host that becomes an image is kept",
        "keep",
        "ami-1 is making an image",
        {**KEPT, "imaging": "ami-1", "window": IDLE},
    ),
    Case(
        "an orphan that becomes an image is kept",
        "keep",
        "is making an image",
        {**LOST, "imaging": "archive-i-0abc", "earlier": Earlier(Word("warn-orphan"), ago(1))},
    ),
    # --------------------------------------------------------------------------------------------------------- idle
    Case("patrol asks for metrics if they decide", "ask", "its metrics decide", KEPT),
    Case(
        "a host that computes is kept",
        "keep-busy",
        "at 87 % within the last 30 min",
        {**KEPT, "window": window(at=87)},
    ),
    Case(
        "one busy minute in the window keeps a host",
        "keep-busy",
        "at 60 %",
        {**KEPT, "window": window(m1=60)},
    ),
    Case(
        "one busy GPU of eight keeps a host: the busiest GPU counts",
        "keep-busy",
        "at 97 %",
        {**KEPT, "type": "p4d.24xlarge", "gpus": 8, "window": window(at=97)},
    ),
    Case("a GPU at the threshold is busy", "keep-busy", "at 5 %", {**KEPT, "window": window(m29=5.0)}),
    Case(
        "an idle on-demand host is stopped",
        "stop-idle",
        "no GPU of it was above 4.9 %",
        {**KEPT, "window": window(m7=4.9)},
        saves=PRICE,
    ),
    Case(
        "an idle spot host without a run becomes an image",
        "archive-idle",
        "cannot stop a fleet's spot host, so it is archived. It costs $1.02 an hour",
        {**KEPT, **SPOT, "window": IDLE},
        saves=PRICE,
    ),
    Case(
        "an idle spot host is terminated if its policy says so",
        "terminate-idle",
        "its policy terminates it. It costs $1.02 an hour",
        {**KEPT, **SPOT, "window": IDLE},
        {"idle_spot": IdleSpot.TERMINATE},
        saves=PRICE,
    ),
    Case(
        "a host that was launched outside a run is judged by its use",
        "stop-idle",
        "it is not held",
        {"window": IDLE},
        saves=PRICE,
    ),
    Case(
        "a window longer than the life of the host has not passed",
        "keep",
        "it became usable at 2026-11-20T11:40Z",
        {**KEPT, "launched": ago(20), "window": window(m0=None, m1=None, m2=None)},
    ),
    # -------------------------------------------------------------------------------------------------- processors
    Case(
        "patrol asks about the processors if no GPU works",
        "ask",
        "its processors decide",
        {**KEPT, "window": IDLE, "processors": None},
    ),
    Case(
        "a host with busy processors is kept, even if no GPU works",
        "keep-busy",
        "its processors used 100 % of one processor, in five minutes within the last 30 min; idle is below 50 %",
        {**KEPT, "window": IDLE, "processors": WORKING},
    ),
    Case(
        "a launched host with busy processors is kept",
        "keep-busy",
        "its processors used 100 %",
        {**MINE, "window": IDLE, "processors": WORKING},
    ),
    Case(
        "unless its policy asks for a higher share",
        "stop-idle",
        "no GPU of it was above 0.0 % and its processors used at most 100 % of one processor in the last 30 min",
        {**KEPT, "window": IDLE, "processors": WORKING},
        {"idle_cpu_percent": 200},
        saves=PRICE,
    ),
    Case(
        "processors without metrics are unknown",
        "keep-unknown",
        "EC2 has not reported",
        {**KEPT, "window": IDLE, "processors": Window((None, None, 1.0))},
    ),
    Case(
        "in a window below a quarter of an hour only GPUs decide, because EC2's metric is too late",
        "stop-idle",
        "no GPU of it was above 0.0 % in the last 14 min",
        {**KEPT, "window": IDLE, "processors": None},
        {"window_minutes": 14},
        saves=PRICE,
    ),
    Case(
        "a host without a GPU is judged by its processors",
        "stop-idle",
        "its processors used at most 4 % of one processor in the last 30 min, and it is not held",
        {**MINE, "type": "m7i.xlarge", "gpus": 0},
        saves=PRICE,
    ),
    Case(
        "a host without a GPU is kept while its processors work",
        "keep-busy",
        "its processors used 100 %",
        {**MINE, "type": "m7i.xlarge", "gpus": 0, "processors": WORKING},
    ),
    Case(
        "a host without a GPU is unknown in so short a window",
        "keep-unknown",
        "EC2 reports processors too late",
        {**MINE, "type": "m7i.xlarge", "gpus": 0, "processors": None},
        {"window_minutes": 14},
    ),
    # ---------------------------------------------------------------------------------------------------- dev hosts
    Case(
        "patrol also asks the agent of a dev host whether the host is in use",
        "ask",
        "metrics decide",
        {**DEV, "use": None},
    ),
    Case(
        "a dev host with a busy kernel in one minute of the window is kept, even if neither GPU nor processors work",
        "keep-busy",
        "a kernel of its notebooks was busy or active within the last 30 min; no GPU of it was above 0.0 %. It costs",
        {**DEV, "use": window(m2=1.0)},
    ),
    Case(
        "a dev host with a busy terminal is kept",
        "keep-busy",
        "a terminal of it was busy or active within the last 30 min",
        {**DEV, "use": window(m2=2.0)},
    ),
    Case(
        "the verdict names both",
        "keep-busy",
        "a kernel of its notebooks and a terminal of it were busy or active",
        {**DEV, "use": window(m2=2.0, m9=1.0)},
    ),
    Case(
        "a busy GPU keeps an abandoned dev host",
        "keep-busy",
        "its busiest GPU was at 87 %",
        {**DEV, "window": window(at=87)},
    ),
    Case(
        "busy processors keep an abandoned dev host",
        "keep-busy",
        "its processors used 100 %",
        {**DEV, "processors": WORKING},
    ),
    Case(
        "an open session keeps a dev host even without other use",
        "keep",
        "a session is open on it",
        {**DEV, "session": True},
    ),
    Case(
        "a port forward does not keep a dev host, because a forgotten laptop leaves one open",
        "stop-idle",
        "no GPU of it was above 0.0 %, its processors used at most 4 % of one processor and no kernel or terminal "
        "of it was in use in the last 30 min, and it is not held and has no session except a "
        "port forward: it is stopped",
        {**DEV, "forward": True},
        saves=PRICE,
    ),
    Case(
        "a port forward keeps other hosts",
        "keep",
        "a session is open on it",
        {**MINE, "forward": True, "window": IDLE},
    ),
    Case(
        "an unused dev host is stopped",
        "stop-idle",
        "no kernel or terminal of it was in use in the last 30 min, and it is not held and has no session",
        DEV,
        saves=PRICE,
    ),
    Case("a held dev host is kept", "keep", "it is held", {**DEV, "held": ahead(60)}),
    Case(
        "a dev host whose agent sends no report is unknown, like a host without GPU metrics",
        "keep-unknown",
        "all of the last 30 minutes of its metric InUse are missing: unknown is not idle",
        {**DEV, "use": SILENT},
    ),
    Case(
        "half a window of reports is unknown",
        "keep-unknown",
        "15 of the last 30 minutes of its metric InUse",
        {**DEV, "use": HALF},
    ),
    Case(
        "that becomes a warning that names the agent",
        "warn-unknown",
        "check that its host agent is running",
        {**DEV, "use": SILENT, "earlier": Earlier(Word("keep-unknown"), ago(31))},
    ),
    Case(
        "one busy minute is enough to know that a dev host is in use",
        "keep-busy",
        "a kernel of its notebooks",
        {**DEV, "use": window(m2=1.0, m9=None, m10=None)},
    ),
    Case(
        "a busy GPU is enough without the report of the agent",
        "keep-busy",
        "at 87 %",
        {**DEV, "window": window(at=87), "use": SILENT},
    ),
    Case(
        "without a GPU, in a window too short for EC2's metric, the agent of a dev host decides",
        "stop-idle",
        "no kernel or terminal of it was in use in the last 14 min",
        {**DEV, "type": "m7i.xlarge", "gpus": 0, "window": None, "processors": None},
        {"window_minutes": 14},
        saves=PRICE,
    ),
    # ------------------------------------------------------------------------------------------------------ unknown
    Case(
        "missing metrics are unknown, never idle",
        "keep-unknown",
        "unknown is not idle",
        {**KEPT, "window": SILENT},
    ),
    Case(
        "half a window of metrics is unknown",
        "keep-unknown",
        "15 of the last 30 minutes",
        {**KEPT, "window": HALF},
    ),
    Case(
        "two missing minutes in a row are unknown",
        "keep-unknown",
        "2 of the last 30",
        {**KEPT, "window": window(m9=None, m10=None)},
    ),
    Case(
        "a missing last minute is unknown",
        "keep-unknown",
        "1 of the last 30",
        {**KEPT, "window": window(m29=None)},
    ),
    Case(
        "a single missing minute is a matter of the agent's clock",
        "stop-idle",
        "no GPU",
        {**KEPT, "window": window(m9=None, m20=None)},
        saves=PRICE,
    ),
    Case(
        "a busy minute is known, whatever else is missing",
        "keep-busy",
        "at 50 %",
        {**KEPT, "window": window(m2=50, m9=None, m10=None)},
    ),
    Case(
        "unknown for half an hour becomes a warning",
        "warn-unknown",
        "CloudWatch agent",
        {**KEPT, "window": SILENT, "earlier": Earlier(Word("keep-unknown"), ago(31))},
    ),
    Case(
        "the warning stays",
        "warn-unknown",
        "its use has been unknown since 2026-11-20T09:00Z",
        {**KEPT, "window": SILENT, "earlier": Earlier(Word("warn-unknown"), ago(180))},
    ),
    Case(
        "a host that is unknown for too long is stopped if the policy says so",
        "stop-unknown",
        "its policy stops it",
        {**KEPT, "window": SILENT, "earlier": Earlier(Word("warn-unknown"), ago(61))},
        {"unknown_stop_minutes": 60},
        saves=PRICE,
    ),
    Case(
        "a host without GPU metrics, as with MIG, is busy if its processors are",
        "keep-busy",
        "all of the last 30 minutes of its GPU metrics are missing, but its processors used 100 % of one processor",
        {**KEPT, "window": SILENT, "processors": WORKING, "earlier": Earlier(Word("warn-unknown"), ago(61))},
        {"unknown_stop_minutes": 60},
    ),
    Case(
        "a dev host without reports of its agent is busy if its processors are",
        "keep-busy",
        "its metric InUse are missing, but its processors",
        {**DEV, "use": SILENT, "processors": WORKING, "earlier": Earlier(Word("warn-unknown"), ago(61))},
        {"unknown_stop_minutes": 60},
    ),
    Case(
        "patrol asks EC2 about the processors before a host counts as unknown",
        "ask",
        "its processors may show that it works",
        {**KEPT, "window": SILENT, "processors": None, "earlier": Earlier(Word("warn-unknown"), ago(61))},
        {"unknown_stop_minutes": 60},
    ),
    Case(
        "processors without metrics leave the host unknown",
        "stop-unknown",
        "its policy stops it",
        {
            **KEPT,
            "window": SILENT,
            "processors": Window((None,) * 5),
            "earlier": Earlier(Word("warn-unknown"), ago(61)),
        },
        {"unknown_stop_minutes": 60},
        saves=PRICE,
    ),
    Case(
        "a window too short for EC2's metric leaves the host unknown",
        "stop-unknown",
        "its policy stops it",
        {**KEPT, "window": SILENT, "processors": None, "earlier": Earlier(Word("warn-unknown"), ago(61))},
        {"unknown_stop_minutes": 60, "window_minutes": 5},
        saves=PRICE,
    ),
    Case(
        "a host that EC2 cannot stop is only warned about",
        "warn-unknown",
        "CloudWatch agent",
        {**KEPT, **SPOT, "window": SILENT, "earlier": Earlier(Word("warn-unknown"), ago(61))},
        {"unknown_stop_minutes": 60},
    ),
    Case(
        "unknown time starts again after a minute with metrics",
        "keep-unknown",
        "unknown is not idle",
        {**KEPT, "window": SILENT, "earlier": Earlier(Word("keep"), ago(300))},
    ),
    # ------------------------------------------------------------------------------------------------------ stopped
    Case(
        "a stopped host is kept",
        "keep-stopped",
        "it was stopped at 2026-11-17T12:00Z and will be archived at 2026-11-24T12:00Z. It costs $8.00 a month "
        "for its disk of 100 GiB while stopped. Archived: at most $5.00 a month. Terminated: nothing, "
        "and its disk is deleted",
        stopped(3),
    ),
    Case(
        "a stopped host becomes an image after a week",
        "archive-stopped",
        "its policy archives a host that was stopped for 7 days",
        stopped(7),
    ),
    Case(
        "a stopped host becomes an image earlier if its policy says so",
        "archive-stopped",
        "its policy archives",
        stopped(1.5),
        {"archive_days": 1},
    ),
    Case(
        "if EC2 does not name the time of the stop, the first pass counts",
        "keep-stopped",
        "it was stopped at 2026-11-20T12:00Z",
        stopped(9, changed=None),
    ),
    Case(
        "and the week runs from that pass",
        "archive-stopped",
        "it was stopped at 2026-11-12T12:00Z",
        stopped(9, changed=None, earlier=Earlier(Word("keep-stopped"), NOON - timedelta(days=8))),
    ),
    Case("a stopped host is not an orphan", "keep-stopped", "it was stopped at", stopped(1, stays=False)),
    Case("a stopped host of a live run belongs to the run", "keep", "is running", stopped(9, live=True)),
]
