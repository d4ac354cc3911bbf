"""Await: the launched host is there once Systems Manager knows it, since then it can be reached."""

from typing import Any

from lambdas import settings
from lambdas.aws import instances, ssm
from lambdas.aws.ledger import Ledger, attempt_row, event_row, host_row, run_row
from lambdas.core.images.launch import connect
from lambdas.core.model.errors import HostLost, NotRegistered
from lambdas.settings import YardSettings
from lambdas.steps.observability import attempt_of, clock, note


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Raises NotRegistered until then: the workflow asks again. HostLost once EC2 says that the host is gone."""
    yard = settings.read(YardSettings)
    run, attempt = attempt_of(event)
    ledger, now = Ledger(yard.table_name), clock()
    (host,) = ledger.known(run).attempts[attempt].hosts
    found = instances.of_ids([host])
    if not found or found[0].gone:
        said = f"{found[0].state} ({found[0].state_reason or 'no reason given'})" if found else "unknown"
        raise HostLost(f"EC2 says {host} is {said}, before it could be reached")
    if host not in ssm.online([host]):
        raise NotRegistered(
            f"Systems Manager does not know {host} yet: it boots, or hangs, or has no way there"
        )
    reason = f"{host} in {found[0].zone} is there; {connect(host)}"
    ledger.write(
        host_row(
            run, host, {"address": found[0].address, "ready": attempt, "ready_at": now}, only="launched"
        ),
        attempt_row(run, attempt, {"gang_ready": now}),
        run_row(run, {"state": "Await", "attempt": attempt}),
        event_row(run, note("reached", reason, at=now, attempt=attempt)),
    )
    return {"kind": "launched", "reason": reason}
