"""A study of the canned yard: 20 trials of 24 have ended, one was stopped early, one failed, and two of four run."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from math import exp, log10
from typing import Any

from tests.unit.ui.canned import EXECUTION, POOL, Clock, Story, run_row, stamp

STUDY = "tune-7a8b9c0d"
METRIC = "val_accuracy"
TRIALS, ENDED, RUNNING = 24, 20, 2
BEST = 2
SECTION: dict[str, Any] = {
    "maximize": METRIC,
    "parameters": {
        "args.lr": {"log": [Decimal("0.00001"), Decimal("0.1")]},
        "args.optimizer": {"choice": ["sgd", "adam"]},
        "args.momentum": {"range": [Decimal(0), Decimal("0.99")], "when": {"args.optimizer": ["sgd"]}},
        "args.units": {"integers": [Decimal(16), Decimal(256)], "step": Decimal(16)},
    },
    "trials": Decimal(TRIALS),
    "parallel": Decimal(RUNNING),
    "limits": {"dollars": Decimal(5), "hours": Decimal(6)},
}
RUNGS = {4: 140, 12: 400}
"""The epochs at which trials are compared, and their steps."""
SLOW, BROKEN = 7, 11
"""The trial that was stopped at a rung, and the one whose program failed."""


def study(now: datetime) -> Iterator[Story]:
    """Yield the study and its trials."""
    begun = now - timedelta(minutes=50)
    at = Clock(begun)
    rows = [_trial(number, at) for number in range(1, ENDED + RUNNING + 1)]
    spent = sum((row.get("dollars", Decimal(0)) for row in rows), Decimal(0))
    best = next(row["value"] for row in rows if row["sk"] == f"trial#{BEST:04}")
    counters = {
        "pk": f"study#{STUDY}",
        "sk": "study",
        "version": Decimal(44),
        "trials": Decimal(TRIALS),
        "dollars": Decimal(5),
        "until": stamp(at(6 * 3600)),
        "spent": spent,
        "lent": Decimal("0.4"),
        "best": Decimal(BEST),
        "value": best,
        "reported": Decimal(ENDED),
        "running": Decimal(RUNNING),
        "importance": {
            "args.optimizer": Decimal("0.08"),
            "args.lr": Decimal("0.9166"),
            "args.units": Decimal(0),
        },
    }
    search = {
        "metric": METRIC,
        "trials": Decimal(TRIALS),
        "reported": Decimal(ENDED),
        "running": Decimal(RUNNING),
        "dollars": spent,
        "most_dollars": Decimal(5),
        "best": Decimal(BEST),
        "value": best,
    }
    job = {"name": "tune", "limits": {"dollars": Decimal(1), "hours": Decimal(1)}, "study": SECTION}
    row = run_row(STUDY, begun, kind="study", state="Search", search=search, job=job, submitter="grace")
    yield Story(
        row=row,
        states=[(at(0), "Admit"), (at(2), "Search")],
        files={"job.json": json.dumps(job, default=float).encode()},
        trials=[counters, *rows, *(rung for row in rows for rung in _rungs(row))],
    )
    yield from (_story(each, at) for each in rows)


def _values(number: int) -> dict[str, Any]:
    lr = 10 ** (-5 + 4 * (number * 7 % ENDED) / ENDED)
    values: dict[str, Any] = {
        "args.lr": Decimal(f"{lr:.5g}"),
        "args.optimizer": ("sgd", "adam")[number % 2],
        "args.units": Decimal(16 + 16 * (number * 5 % 16)),
    }
    return values | ({"args.momentum": Decimal("0.9")} if number % 2 == 0 else {})


def _value(number: int) -> Decimal:
    lr = float(_values(number)["args.lr"])
    return Decimal(f"{0.97 - 0.05 * (log10(lr) + 2.5) ** 2 + number % 3 / 200:.4f}")


def _trial(number: int, at: Clock) -> dict[str, Any]:
    begun = 60 + 140 * (number - 1)
    row: dict[str, Any] = {
        "pk": f"study#{STUDY}",
        "sk": f"trial#{number:04}",
        "values": _values(number),
        "drawn_by": "sampler",
        "state": "started",
        "cap": Decimal("0.2"),
        "asked": stamp(at(begun)),
        "started": stamp(at(begun + 1)),
    }
    if number > ENDED:
        return row
    row |= {"reported": stamp(at(begun + 200)), "dollars": Decimal(f"0.0{100 + number * 7 % 50}")}
    if number == BROKEN:
        return row | {"state": "failed", "error": "ProgramFailed", "reason": "ValueError: lr is too high"}
    if number == SLOW:
        reason = f"at epoch 4 its {METRIC} is 0.61; the median of 5 other trials there is 0.8712"
        return row | {"state": "stopped", "value": Decimal("0.61"), "step": Decimal(4), "reason": reason}
    return row | {"state": "complete", "value": _value(number), "step": Decimal(400)}


def _rungs(trial: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rungs of a trial. Only complete trials have reached the second one."""
    number = int(trial["sk"].partition("#")[2])
    for epoch, step in RUNGS.items():
        if trial["state"] == "complete" or epoch == min(RUNGS):
            yield {
                "pk": f"study#{STUDY}",
                "sk": f"rung#{epoch:010}#{number:04}",
                "value": Decimal(f"{_last(trial) * _part(step):.4f}"),
                "at": Decimal(step),
            }


def _part(step: int) -> float:
    """Return the part of its last value that a curve has reached."""
    return 1 - exp(-step / 90)


def _last(trial: dict[str, Any]) -> float:
    """Return the value at which the curve of a trial ends, or would end."""
    value = float(trial.get("value", 0.8))
    return value / _part(RUNGS[4]) if trial["state"] == "stopped" else value


def _story(trial: dict[str, Any], at: Clock) -> Story:
    number = int(trial["sk"].partition("#")[2])
    run = f"{STUDY}-{number:04}-trial"
    end = RUNGS[4] if trial["state"] == "stopped" else 400
    points = [[step, _last(trial) * _part(step)] for step in range(10, end + 1, 10)]
    ended = {"ended": trial["reported"], "dollars": trial["dollars"]} if "reported" in trial else {}
    outcome = {"complete": "succeeded", "stopped": "stopped", "failed": "failed"}.get(trial["state"])
    running = {"objective": {"step": Decimal(200), "epoch": Decimal(6), "value": Decimal("0.8")}}
    more = {**ended, "outcome": outcome} if outcome else running
    row = run_row(
        run, datetime.fromisoformat(trial["asked"]), name="tune", price=Decimal("0.3613"), pool=POOL
    )
    job = {"name": "tune", "program": {"args": {"lr": trial["values"]["args.lr"]}}}
    files = {
        "metrics.json": json.dumps({"scalars": {METRIC: points}}).encode(),
        "job.json": json.dumps(job, default=float).encode(),
    }
    status = {"succeeded": "SUCCEEDED", "failed": "FAILED", "stopped": "SUCCEEDED"}.get(
        outcome or "", "RUNNING"
    )
    return Story(row=row | more | {"execution_arn": f"{EXECUTION}:{run}"}, files=files, status=status)
