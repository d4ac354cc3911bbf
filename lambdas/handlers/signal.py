"""Signal: every event about a live attempt, from its hosts, from AWS and from patrol. Brings task tokens back.

An event about somebody else's instance, or about a run that is over, is logged and ignored. An access error
met on the way ends the run with that error: nobody waits for an event to be retried.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws.ledger import Ledger
from lambdas.core.model.errors import AccessDenied, Misconfigured
from lambdas.core.run import signal_schema
from lambdas.settings import SignalSettings
from lambdas.steps import attempts
from lambdas.steps.access_denied import end_denied
from lambdas.steps.observability import clock, logger
from lambdas.steps.signals import from_aws, from_hosts, from_patrol
from lambdas.steps.signals.context import Hearing


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(SignalSettings)
    ledger, now = Ledger(yard.table_name), clock()
    hearing: Hearing | None = None
    try:
        hearing = _hearing(event, yard, ledger)
        if hearing is None:
            return {"heard": "nothing of ours"}
        heard = LISTENERS.get(event["source"], from_aws.listen)(hearing, event, now)
    except Misconfigured as lost:
        assert hearing is not None, "only a run's own records can be lost"
        heard = f"{attempts.give_up(ledger, hearing.run, lost, now)} waits end: {lost.reason}"
    except AccessDenied as denied:
        run, attempt = (hearing.run, hearing.attempt) if hearing else _named(event)
        if run:
            end_denied(ledger, run, attempt, denied, now)
        raise
    logger.info("%s: %s", event["detail-type"], heard, extra={"run": hearing.run, "attempt": hearing.attempt})
    return {"heard": heard}


def _hearing(event: Mapping[str, Any], yard: SignalSettings, ledger: Ledger) -> Hearing | None:
    """Which run and attempt the event is about: hosts say it, for AWS's events the look-up rows do."""
    if event["source"] == "trainyard.host":
        wrong = signal_schema.unreadable(str(event["detail-type"]), event["detail"])
        if wrong:
            logger.warning("%s is no signal and is not heard: %s", event["detail-type"], wrong)
            return None
        run, attempt = _named(event)
        return Hearing(yard, ledger, run, attempt, event["detail"])
    if event["source"] == from_patrol.SOURCE:
        return Hearing(yard, ledger, *_named(event), event["detail"])
    noun, name = from_aws.about(event)
    owner = ledger.owner(noun, name) or from_aws.named_in_parameters(event)
    if owner is None:
        logger.info("%s about %s %s: not ours", event["detail-type"], noun, name)
        return None
    return Hearing(
        yard, ledger, str(owner["run"]), int(owner.get("attempt", 1)), event["detail"], owner.get("wait")
    )


def _named(event: Mapping[str, Any]) -> tuple[str, int]:
    detail = event["detail"]
    return str(detail.get("run", "")), int(detail.get("attempt", 1))


LISTENERS: Mapping[str, Callable[[Hearing, Mapping[str, Any], datetime], str]] = {
    "trainyard.host": from_hosts.listen,
    from_patrol.SOURCE: from_patrol.listen,
}
"""By the event's source; everything else is AWS's."""
