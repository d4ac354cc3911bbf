"""EC2's interruption warning also reaches signal, which marks the host and asks the whole gang to save."""

import json
from typing import Any

from lambdas.workflows import signal
from tests.support.recorded import CONTEXT
from tests.unit.workflows.signalled_run import Run, run

__all__ = ["run"]

AT = "2026-11-20T12:00:00.000Z"


def warns(run: Run, instance: str) -> str:
    event: dict[str, Any] = {
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": AT,
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    }
    return str(signal.handler(event, CONTEXT)["result"])


def test_a_warning_marks_the_host_and_has_its_gang_save(run: Run) -> None:
    assert warns(run, "i-b") == "the gang is asked to checkpoint"
    assert run.row("host#i-b")["warned"] == AT
    assert "warned" not in run.row("host#i-a")
    order = json.loads(run.account.objects["runs/r/order.json"])
    assert (order["kind"], order["attempt"], order["hosts"]) == ("stop", 2, ["i-a", "i-b"])
    (told,) = [row for (pk, _), row in run.account.table.items() if pk.startswith("timeline#")]
    assert (told["event"], told["instance"]) == ("spot warning", "i-b")


def test_a_warning_of_a_strange_host_changes_nothing(run: Run) -> None:
    assert warns(run, "i-stranger") == "not about this yard"
    assert "runs/r/order.json" not in run.account.objects
