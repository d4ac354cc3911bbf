"""The cost of a run, and its summary."""
# ruff: noqa: E501 - one line a row

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lambdas.core.capacity import cost
from lambdas.core.notifications import run as run_texts
from lambdas.core.run import deadlines, outcome
from lambdas.core.run.conclusion import summary
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from tests.unit.core.builders import NOON, after, ended_run, job
from trainyard.protocol.ledger.attempt import AttemptRow, Ending
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.plan import Market
from trainyard.protocol.summary import RunSummary
from trainyard.values import serialization


def life(
    instance: str = "i-1",
    market: Market = Market.SPOT,
    begin: float = 0,
    end: float | None = 3600,
    on_demand_price: float | None = 0.8,
) -> HostRow:
    return HostRow(
        instance=instance,
        attempt=1,
        type="g6.xlarge",
        zone="us-east-1a",
        market=market,
        price=0.3 if market is Market.SPOT else 0.8,
        on_demand_price=on_demand_price,
        launched=after(begin),
        ended=None if end is None else after(end),
    )


def test_a_root_disk_costs_as_long_as_its_host() -> None:
    """73 GiB of gp3 at $0.08 a month cost 0.8 cents an hour."""
    host = replace(life(), price=0.25, disk_gib=73)
    total = cost.bill([host], now=after(7200))
    assert total.dollars == 0.258
    assert total.on_demand_dollars == 0.808
    assert total.saved_dollars == 0.55


def test_a_disk_costs_what_its_region_asks() -> None:
    host = replace(life(end=None), price=0.25, disk_gib=73, gib_month=0.1)
    assert cost.bill([host], now=after(3600)).dollars == 0.26
    records = Records(
        RunRow(
            run=RUN,
            kind="train",
            state="Train",
            attempt=1,
            created=NOON,
            execution_arn="arn",
            job=serialization.to_json(job(limits={"dollars": 0.52})),
        ),
        hosts={"i-1": host},
        attempts={1: replace(attempt(1, Ending.FINISHED), hosts=("i-1",))},
    )
    assert abs(deadlines.deadline(records, 1, after(0)) - after(7200)) < timedelta(seconds=70)


def test_how_fast_a_disk_was_fetched_is_billed_once() -> None:
    host = replace(life(), price=0.25, volume_charge=0.36)
    assert [cost.bill([host], now=after(seconds)).dollars for seconds in (3600, 7200)] == [0.61, 0.61]
    assert cost.bill([host], now=after(7200)).on_demand_dollars == 1.16
    assert cost.dollars_of(host, now=after(7200)) == 0.61


def test_seconds_times_price_by_market_beside_on_demand() -> None:
    bill = cost.bill([life(), life("i-2", end=1800), life("i-3", Market.ON_DEMAND, end=360)], now=after(9999))
    assert bill.dollars_by_market == {"spot": 0.45, "on_demand": 0.08}
    assert bill.hours_by_market == {"spot": 1.5, "on_demand": 0.1}
    assert (bill.dollars, bill.hours) == (0.53, 1.6)
    assert (bill.on_demand_dollars, bill.saved_dollars) == (1.28, 0.75)


def test_a_living_host_costs_until_now() -> None:
    assert cost.bill([life(end=None)], now=after(7200)).dollars == 0.6


def test_a_host_costs_a_minute_at_least() -> None:
    assert cost.bill([life(end=1)], now=NOON).dollars == pytest.approx(0.3 / 60)


def test_nothing_launched_costs_nothing() -> None:
    bill = cost.bill([], now=NOON)
    assert (bill.dollars, bill.on_demand_dollars) == (0, 0)


def test_an_unknown_price_makes_no_comparison() -> None:
    bill = cost.bill([life(), life("i-2", on_demand_price=None)], now=NOON)
    assert bill.dollars == 0.6
    assert bill.on_demand_dollars is None


DEADLINES = [
    # name, hours, dollars, spent, dollars per hour, now, deadline
    ("the hours end it", 2, 100, 0, 1, 0, 7200),
    ("the dollars end it", 2, 1, 0, 1, 0, 3600),
    ("what is spent counts", 2, 1, 0.5, 1, 600, 600 + 1800),
    ("hours count from admission", 1, 100, 0, 1, 1800, 3600),
    ("nothing is left", 2, 1, 1.5, 1, 600, 600),
    ("a deadline that has passed stays where it was", 1, 100, 0, 1, 7200, 3600),
    ("without a price only hours count", 1, 1, 0, 0, 0, 3600),
    ("nor do they move on when they are over", 1, 1, 0, 0, 7200, 3600),
    ("a tiny price does not break the calendar", 1, 100_000, 0, 1e-12, 0, 3600),
]


@pytest.mark.parametrize(
    ("hours", "dollars", "spent", "rate", "now", "end"),
    [r[1:] for r in DEADLINES],
    ids=[r[0] for r in DEADLINES],
)
def test_the_deadline(
    hours: float, dollars: float, spent: float, rate: float, now: float, end: float
) -> None:
    found = cost.deadline(
        begun=NOON, hours=hours, dollars=dollars, spent=spent, dollars_per_hour=rate, now=after(now)
    )
    assert found == after(end)


def attempt(number: int, ending: Ending, from_step: int | None = None, ended: datetime = NOON) -> AttemptRow:
    return AttemptRow(
        attempt=number, candidate={"pool": "g6.xlarge in us-east-1a, spot"}, hosts=("i-1",), launched=NOON, ended=ended,
        ending=ending, reason="why", from_step=from_step,
    )  # fmt: skip


RUN = "digits-1a2b3c4d"
ATTEMPTS = (attempt(2, Ending.FINISHED, 120, after(600)), attempt(1, Ending.INTERRUPTED, None, after(300)))
OBJECTS = (
    "runs/digits-1a2b3c4d/model/saved_model.pb",
    "runs/digits-1a2b3c4d/plan.json",
    "runs/digits-1a2b3c4d/attempts/1/logs/chief-0/00000001.log",
    "runs/digits-1a2b3c4d/attempts/10/logs/chief-0/00000001.log",
    "runs/digits-1a2b3c4d/attempts/10/logs/chief-0/00000002.log",
    "runs/digits-1a2b3c4d/attempts/10/logs/worker-1/00000001.log",
)
METRICS = {"step": 300, "steps": 300, "accuracy": 0.98, "history": [1, 2], "samples": [{"step": 10}]}


def told(attempts: tuple[AttemptRow, ...] = ATTEMPTS, **row: Any) -> RunSummary:
    """Return the summary of a run of ten minutes."""
    ended = ended_run(
        RUN,
        600,
        job=job(),
        job_key="jobs/digits.yaml",
        attempts=attempts,
        hosts=(life(end=300), life("i-2", begin=300, end=None)),
        progress={"step": 290, "steps": 300},
        **row,
    )
    return summary.summarise(ended, objects=OBJECTS, metrics=METRICS)


def test_the_summary_tells_the_whole_story() -> None:
    found = told()
    assert (found["outcome"], found["job"], found["seconds"], found["restarts"]) == (
        "succeeded",
        "digits",
        600.0,
        1,
    )
    assert [(a["attempt"], a["ending"], a["from_step"], a["to_step"]) for a in found["attempts"]] == [
        (1, "interrupted", 0, 120),
        (2, "finished", 120, 300),
    ]
    assert found["steps"] == {"done": 300, "planned": 300}
    assert found["metrics"] == {"step": 300, "steps": 300, "accuracy": 0.98}
    assert found["cost"]["by_market"]["spot"]["dollars"] == 0.05
    assert found["cost"]["saved_percent"] == 62.5
    assert [host["seconds"] for host in found["hosts"]] == [300.0, 300.0]
    assert found["where"] == {
        "folder": "s3://b/runs/digits-1a2b3c4d/",
        "model": "s3://b/runs/digits-1a2b3c4d/model/",
        "plan": "s3://b/runs/digits-1a2b3c4d/plan.json",
        "attempts": "s3://b/runs/digits-1a2b3c4d/attempts/",
        "last_log": "s3://b/runs/digits-1a2b3c4d/attempts/10/logs/chief-0/",
    }
    json.dumps(found)


def again(number: int, **row: Any) -> AttemptRow:
    return AttemptRow(attempt=number, candidate={"pool": "p"}, hosts=("i-1",), launched=NOON, **row)


def restart(
    from_step: int | None = None,
    reported: int | None = None,
    to_step: int | None = None,
    resumed: dict[str, Any] | None = None,
    started: datetime | None = NOON,
    checkpointed: int | None = None,
    saved: datetime | None = None,
) -> dict[str, Any]:
    return {
        "from_step": from_step,
        "reported": reported,
        "to_step": to_step,
        "resumed": resumed,
        "started": started,
        "checkpointed": checkpointed,
        "saved": saved,
    }


WHOLE: dict[str, Any] = {"step": 120, "verified": True}
DAMAGED: dict[str, Any] = {"step": 120, "verified": False}
FIRST = restart(to_step=120)
RESUMES: list[tuple[str, list[dict[str, Any]], list[int], int | None, bool | None]] = [
    # name, attempts, resumed at, steps lost, verified
    ("no restart", [FIRST], [], 0, None),
    ("stopped at its checkpoint", [restart(0, 118, 120), restart(120, resumed=WHOLE)], [120], 0, True),
    ("killed after its checkpoint", [restart(0, 131), restart(120, resumed=WHOLE)], [120], 11, True),
    ("said more when it left than it had reported", [restart(0, 131, 133), restart(120, resumed=WHOLE)], [120], 13, True),
    ("had saved more than it had reported", [restart(0, 110, checkpointed=120), restart(60)], [60], 60, None),
    ("lost before there was a checkpoint", [restart(0, 40), restart(0)], [0], 40, None),
    ("a damaged checkpoint", [FIRST, restart(120, resumed=DAMAGED)], [120], 0, False),
    ("went back to an older checkpoint than it was given", [FIRST, restart(120, resumed={"step": 60, "verified": True})], [60], 60, True),
    ("a program that does not say what it restored", [restart(0, 125), restart(120)], [120], 5, None),
    ("resumed at the step reported", [restart(0, 120), restart(120, resumed=WHOLE)], [120], 0, True),
    ("resumed later than anybody reported", [restart(0, 110), restart(120, resumed=WHOLE)], [120], 0, True),
    ("a program without steps has an unknown step", [restart(saved=NOON), restart(3)], [3], None, None),
    ("several", [restart(0, 130), restart(120, 205, resumed=WHOLE), restart(200, resumed={"step": 200, "verified": True})], [120, 200], 15, True),
    ("one of several was damaged", [restart(0, 130), restart(120, 205, resumed=DAMAGED), restart(200, resumed={"step": 200, "verified": True})], [120, 200], 15, False),
    ("one of several did not say", [restart(0, 130), restart(120, 205), restart(200, resumed={"step": 200, "verified": True})], [120, 200], 15, None),
    ("lost again before its first word", [FIRST, restart(100), restart(100, resumed={"step": 100, "verified": True})], [100, 100], 20, None),
    ("one in between never started", [restart(0, 131), restart(started=None), restart(120, resumed=WHOLE)], [120], 11, True),
    ("sent two attempts back by damaged checkpoints", [restart(0, 40), restart(30, started=None), restart(20, started=None), restart(10)], [10], 30, None),
    ("sent two back that both had started", [restart(0, 40), restart(30), restart(20), restart(10)], [30, 20, 10], 30, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "resumed_at", "lost", "verified"), [row[1:] for row in RESUMES], ids=[row[0] for row in RESUMES]
)
def test_the_proof_of_resume(
    rows: list[dict[str, Any]], resumed_at: list[int], lost: int | None, verified: bool | None
) -> None:
    attempts = [again(n, **row) for n, row in enumerate(rows, 1)]
    found = summary.resume(ended_run(RUN, attempts=reversed(attempts), job=job()).attempts)
    assert found == {
        "attempts": len(rows),
        "resumed_at": resumed_at,
        "steps_lost": lost,
        "verified": verified,
        "restores": [row["resumed"] for row in rows if row["resumed"]],
    }


@pytest.mark.parametrize(
    ("rows", "resumed_at", "lost"),
    [
        ([restart(0, 234), restart(0, 399)], [None], None),
        ([restart(0, 234), restart(0, 399, resumed=WHOLE)], [120], 114),
        ([restart(0, 131), restart(120)], [120], 11),
        ([FIRST], [], 0),
    ],
)
def test_of_a_restart_with_outputs_only_the_program_knows_the_step(
    rows: list[dict[str, Any]], resumed_at: list[int | None], lost: int | None
) -> None:
    attempts = [again(n, **row) for n, row in enumerate(rows, 1)]
    kept = [{"files": 3, "bytes": 9, "left_out": [], "left_out_more": 0}]
    found = summary.summarise(ended_run(RUN, attempts=attempts, job=job()), objects=(), outputs=kept)
    assert (found["resume"]["resumed_at"], found["resume"]["steps_lost"]) == (resumed_at, lost)
    words = run_texts.notify_end(found).text
    assert ("resumed from the outputs of the last attempt; steps lost: unknown" in words) is (
        None in resumed_at
    )


def test_the_notice_says_what_an_interruption_cost() -> None:
    assert "Steps: 300 of 300.\n" in run_texts.notify_end(told(ATTEMPTS[1:])).text
    attempts = (
        again(1, started=NOON, reported=131),
        again(2, started=NOON, from_step=120, resumed=WHOLE),
    )
    text = run_texts.notify_end(told(attempts)).text
    assert "Attempts: 2. Steps: 300 of 300, resumed at step 120; steps lost: 11." in text


def test_what_was_expected_to_fail_stands_in_summary_and_notice() -> None:
    found = told(warnings=("train.py uses tf.Session (line 3)",))
    assert found["warnings"] == ["train.py uses tf.Session (line 3)"]
    assert "\nWarning: train.py uses tf.Session (line 3)\n" in run_texts.notify_end(found).text
    assert "Warning" not in run_texts.notify_end(told()).text


def test_a_bill_that_lacks_a_host_says_so() -> None:
    last, lost = ATTEMPTS
    found = told((replace(lost, hosts=("i-1", "i-9")), last))
    assert found["warnings"] == ["The cost lacks i-9: their rows are not in the ledger any more"]


def test_an_attempt_got_at_least_as_far_as_the_next_one_resumed_from() -> None:
    last, lost = ATTEMPTS
    assert told((replace(lost, to_step=1), last))["attempts"][0]["to_step"] == 120


DONE: list[tuple[str, list[dict[str, Any]], int | None, list[int | None]]] = [
    # name, attempts, steps done, last step of each
    ("nothing was reported", [restart(0)], None, [None]),
    ("finished, and failed afterwards", [restart(0, 5, 40)], 40, [40]),
    ("saved more than it had reported", [restart(0, 5, checkpointed=8)], 8, [8]),
    ("went on from another run", [restart(120)], 120, [None]),
    ("restarted, and failed before it was as far again", [restart(0, 40), restart(10, 15)], 15, [40, 15]),
    ("restarted, and failed before its first word", [restart(0, 40), restart(30)], 30, [40, None]),
    ("could not be restarted", [restart(0, 40), restart(30, started=None)], 40, [40, None]),
    ("began anew", [restart(0, 40), restart(0)], 0, [40, None]),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "done", "reached"), [row[1:] for row in DONE], ids=[row[0] for row in DONE])
def test_the_steps_of_a_run_that_left_no_metrics(
    rows: list[dict[str, Any]], done: int | None, reached: list[int | None]
) -> None:
    attempts = [again(n, **row) for n, row in enumerate(rows, 1)]
    found = summary.summarise(
        ended_run(RUN, attempts=attempts, job=job(), progress={"step": 5, "steps": 40}), objects=()
    )
    assert found["steps"] == {"done": done, "planned": 40}
    assert [attempt["to_step"] for attempt in found["attempts"]] == reached


def test_the_summary_names_faulty_and_slow_hosts_and_the_limit() -> None:
    found = told(findings={"slow i-b": "i-b is slower"}, limited="the GPUs waited for input 61 % of the time")
    assert found["findings"] == ["i-b is slower", "the GPUs waited for input 61 % of the time"]


def test_a_refused_run_has_a_summary_too() -> None:
    refused = Conclusion(outcome=Outcome.REFUSED, error="JobRefused", reason="r")
    found = summary.summarise(ended_run("x", how=refused), objects=())
    assert (found["outcome"], found["error"], found["attempts"], found["job"]) == (
        "refused",
        "JobRefused",
        [],
        None,
    )
    assert found["cost"]["dollars"] == 0
    assert found["cost"]["saved_percent"] is None
    notification = run_texts.notify_end(found)
    assert notification.subject == "Trainyard: x refused"
    assert "Reason: r" in notification.text


def test_a_notification_names_what_the_run_cost() -> None:
    assert "$0.0500 for 0.167 host hours, on demand $0.1333" in run_texts.notify_end(told()).text


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        ("Interrupted", Ending.INTERRUPTED),
        ("HostLost", Ending.LOST),
        ("StartFailed", Ending.START_FAILED),
        ("States.HeartbeatTimeout", Ending.TIMED_OUT),
        ("ProgramHangs", Ending.TIMED_OUT),
        ("ProgramFailed", Ending.FAILED),
        ("anything", Ending.FAILED),
    ],
)
def test_every_error_is_an_ending(error: str, ending: Ending) -> None:
    assert outcome.ending_of(error) is ending
