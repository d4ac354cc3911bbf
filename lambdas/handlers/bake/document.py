"""A bake's documents on the builder, one state each: install, test, generalize. Also says why one of them failed."""

from collections.abc import Mapping
from typing import Any

from lambdas import settings
from lambdas.aws import s3, ssm
from lambdas.aws.ledger import Ledger
from lambdas.core.images import bake
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.settings import BakeDocumentSettings
from lambdas.steps import waits
from lambdas.steps.observability import attempt_of, clock

DOING = {"install": "installing", "test": "testing", "generalize": "generalizing"}


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Raises NotRegistered until Systems Manager knows the builder: the workflow asks again."""
    yard = settings.read(BakeDocumentSettings)
    run, attempt, step = *attempt_of(event), str(event["step"])
    ledger, now = Ledger(yard.table_name), clock()
    if "explain" in event:
        return _explain(yard, ledger.known(run), attempt, step, event["explain"])
    entered = waits.enter(ledger, run, attempt, step, event["token"], now, state=step.capitalize())
    (builder,) = entered.records.attempts[attempt].hosts
    waits.raise_if_over(entered, builder)
    document, parameters = _document(yard, run, step)
    waits.for_command(entered, builder, document, parameters, doing=DOING[step])
    return {}


def _document(yard: BakeDocumentSettings, run: str, step: str) -> tuple[str, Mapping[str, str]]:
    """The document of this step, and what it is told."""
    recipe = {"Recipe": f"s3://{yard.bucket_name}/runs/{run}/recipe.json", "Run": run}
    match step:
        case "install":
            return yard.install_document, recipe | {"Software": yard.software_uri}
        case "test":
            return yard.test_document, recipe
        case _:
            return yard.generalize_document, {"Depth": "builder"}


def _explain(
    yard: BakeDocumentSettings, records: Records, attempt: int, step: str, failure: Mapping[str, Any]
) -> dict[str, Any]:
    """The failure again, with the failed tests or the document's own last word, and with what it printed last."""
    trouble = Trouble.caught(failure["error"], failure.get("cause", ""))
    row = records.waits.get((attempt, step))
    if row is None or row.command is None:
        return {"kind": "error", "error": trouble.error, "cause": trouble.to_cause()}
    said = ssm.result(row.command, records.attempts[attempt].hosts[0])
    results = s3.get_json(yard.bucket_name, f"runs/{records.run.run}/tests.json") or {}
    failed = bake.tests_failed(results) if step == "test" else None
    status = f"{trouble.reason or trouble.error} ({said.status}, exit code {said.exit_code})"
    reason = failed or bake.last_word(step, said.tail) or status
    full = Trouble(error=trouble.error, reason=reason, tail=said.tail, exit_code=said.exit_code)
    return {"kind": "error", "error": full.error, "cause": full.to_cause()}
