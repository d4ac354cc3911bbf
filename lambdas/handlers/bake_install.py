"""Bake, second step: install the host software on the builder; also says what the command printed."""

from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws import documents
from lambdas.aws.ledger import Ledger, attempt_row, event_row, look_up_row
from lambdas.core.bake import BuilderNotRegistered
from lambdas.core.errors import HostLost
from lambdas.core.records import Records
from lambdas.core.recovery import Trouble
from lambdas.handlers import attempts, waits
from lambdas.handlers.voice import attempt_of, clock, note
from lambdas.settings import BakeInstallSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Raises BuilderNotRegistered until Systems Manager knows the builder: the workflow asks again."""
    yard = settings.read(BakeInstallSettings)
    run, attempt = attempt_of(event)
    ledger, now = Ledger(yard.table_name), clock()
    if "explain" in event:
        return _explain(ledger.known(run), event["explain"])
    records = attempts.await_news(ledger, run, attempt, "install", event["token"], now, state="Install")
    (builder,) = records.attempts[attempt].hosts
    gone = records.hosts[builder].lost
    if gone:
        raise HostLost(
            f"{gone}, before anything was installed on it; the image parameter is as it was, bake again"
        )
    if builder not in documents.online([builder]):
        raise BuilderNotRegistered(
            f"Systems Manager does not know the builder {builder}: its host role lacks ssm:UpdateInstanceInformation "
            "(give it AmazonSSMManagedInstanceCore), or there is no route to Systems Manager"
        )
    command = records.attempts[attempt].command or _send(yard, ledger, records, attempt, builder, now)
    wrong = waits.answer_command(ledger, records, attempt, "install", documents.status(command, builder), now)
    if wrong:
        raise wrong
    return {}


def _send(
    yard: BakeInstallSettings, ledger: Ledger, records: Records, attempt: int, builder: str, now: datetime
) -> str:
    run = records.run.run
    parameters = {"Software": yard.software_uri, "Recipe": yard.recipe}
    (command,) = documents.send(yard.install_document, [builder], parameters, comment=f"{run} install")
    ledger.write(
        look_up_row("command", command, run, now=now, attempt=attempt, wait="install"),
        attempt_row(run, attempt, {"command": command, "started": now}),
        event_row(run, note("installing", f"{yard.software_uri} on {builder}", at=now, attempt=attempt)),
    )
    return command


def _explain(records: Records, failure: dict[str, Any]) -> dict[str, Any]:
    """The failure again, with what the command printed last."""
    row = records.attempts[1]
    trouble = Trouble.caught(failure["error"], failure.get("cause", ""))
    if row.command is None:
        return {"kind": "error", "error": trouble.error, "cause": trouble.to_cause()}
    said = documents.outcome(row.command, row.hosts[0])
    reason = f"{trouble.reason or trouble.error} ({said.status}, exit code {said.exit_code})"
    full = Trouble(error=trouble.error, reason=reason, tail=said.tail, exit_code=said.exit_code)
    return {"kind": "error", "error": full.error, "cause": full.to_cause()}
