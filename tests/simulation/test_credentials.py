"""Credentials of long runs are renewed in time for days, whatever fault hits a renewal."""

import json
import re
from datetime import timedelta

from simulation.cases import forks
from simulation.faults import DENIALS, Kind, singles
from simulation.scenario import Scenario, job
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

HOSTS = 2
HALF_HOURS = 2 * 36


def lasting(*, steps: int, step_seconds: float) -> Scenario:
    """Return a scenario with one run of two hosts."""

    def begin(yard: Yard) -> None:
        limits = {"hours": 100, "dollars": 400, "restarts": 5, "wait_minutes": 60}
        document = json.loads(job("long", {"strategy": "multi_worker", "workers": HOSTS}, limits=limits))
        document["program"]["args"] = {"steps": steps, "step-seconds": step_seconds}
        yard.after(
            1, lambda: yard.people.upload("jobs/long.json", json.dumps(document).encode()), "an upload"
        )

    return Scenario("long", "", begin, gang=HOSTS, longest=timedelta(hours=110))


class Expired:
    """Counts S3 requests with expired credentials."""

    times = 0

    def look(self, yard: Yard) -> None:
        self.times = yard.sts.expired


def test_a_run_of_days_never_meets_credentials_that_have_ended(yard: YardTemplate) -> None:
    expired = Expired()
    result = simulate(yard, lasting(steps=216, step_seconds=600.0), at_end=expired.look)
    assert not result.broken
    assert result.outcome.endswith("SUCCEEDED")
    assert result.virtual_seconds > timedelta(hours=36).total_seconds()
    assert expired.times == 0
    assert HOSTS * HALF_HOURS <= result.calls["sts.assume_role"] <= HOSTS * (HALF_HOURS + 3)


RENEWAL = re.compile(
    r"HostSignal credentials host-1 #2"
    r"|host-1 (before|after) credentials #2"
    r"|(?P<signal>signal#\d+)(/\d+ .*)?"
)


def test_a_run_ends_well_after_any_fault_of_a_renewal(yard: YardTemplate) -> None:
    """Try every fault of the requesting host, its event, the function and each of its requests."""
    scenario, expired = lasting(steps=40, step_seconds=60.0), Expired()
    clean = simulate(yard, scenario)
    (signal, *_) = [
        point.partition("/")[0]
        for _, point in clean.points
        if point.endswith("sts.assume_role") and int(point.partition("/")[0][7:]) > HOSTS
    ]
    at_renewal = {
        (kind, point): visit
        for (kind, point), visit in clean.points.items()
        if RENEWAL.fullmatch(point) and (not point.startswith("signal#") or point.partition("/")[0] == signal)
    }
    assert {kind for kind, _ in at_renewal} == {Kind.EVENT, Kind.HOST, Kind.INVOCATION, Kind.REQUEST}
    worlds = forks.run_forks(
        yard,
        scenario,
        singles(at_renewal),
        lambda result: (result.broken, result.outcome, expired.times),
        at_end=expired.look,
    )
    for fault, (broken, outcome, refused) in worlds.items():
        assert not broken, (fault, broken)
        may_fail = fault.kind is Kind.HOST or fault.what in DENIALS
        assert may_fail or outcome.endswith("SUCCEEDED"), (fault, outcome)
        assert refused == 0, fault
