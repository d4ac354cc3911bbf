"""Signal: handle every event about a live attempt, from its hosts, users, AWS and patrol, and answer its task.

Events about foreign instances or ended runs are logged and ignored. A denial ends the run if Lambda's retry of the same
event, a minute later, meets it again."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import assert_never

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.needs import Needs, may
from lambdas.steps import attempts
from lambdas.steps.access_denied import end_denied
from lambdas.steps.entry_point import entry_point, parse
from lambdas.steps.observability import clock, logger, measure, set_log_context
from lambdas.steps.signals import (
    credentials,
    from_aws,
    from_hosts,
    from_patrol,
    from_people,
    warm_hosts,
)
from lambdas.steps.signals.context import SignalContext, SignalSettings
from lambdas.steps.signals.events import (
    AWS_EVENTS,
    PATROL_EVENTS,
    AtCap,
    AwsEvent,
    CommandStatus,
    Event,
    Forgotten,
    ImageState,
    InstanceState,
    Leave,
    MayGrow,
    PatrolEvent,
    RunsEnded,
    SpotWarning,
    StillStopping,
    StudyEnds,
)
from trainyard.core.model.errors import AccessDenied, Misconfigured
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol import keys, requests, signals, sources
from trainyard.protocol.requests import (
    AddPoint,
    DevHost,
    EndWarmHosts,
    ModelRequest,
    More,
    Request,
    ScheduleRequest,
    Stop,
)
from trainyard.protocol.signals import DevCredentials, Hold, Sent
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count
from trainyard.values.text import printable


@dataclass(frozen=True, kw_only=True)
class Handled:
    """The result of an event, for the log."""

    result: str


RunEvent = Sent | PatrolEvent | Stop | EndWarmHosts | AwsEvent
NOT_OURS = Handled(result="not about this yard")
MOST_NAMED = 80
"""The most characters of a run's name in the log."""
DENIED_FOR = timedelta(seconds=45)
"""A denial counts only for events of at least this age, because IAM takes some seconds to apply a new permission.
Lambda retries an event after one minute, and after two more."""
NEEDS = Needs(
    SignalSettings,
    (
        may("answer tasks", "Success", "Failure", "Heartbeat"),
        may(
            "call",
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
        ),
        may("stop executions", "train"),
        may("start executions", "dev-host", "snapshot", "study", "version"),
        may("invoke functions", "train-launch", "release", "study-turn", "submit"),
        may("run documents", "stop"),
        may("mark hosts", Tag.HOLD, Tag.POOL),
        may("read and list objects", keys.RUNS),
        may("write objects", keys.order(keys.ANY), keys.CREDENTIALS),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    ),
    compiled="study",
)


@entry_point
def handler(event: Event) -> Handled:
    yard = environment.read(SignalSettings)
    ledger, now = Ledger(yard.table_name), clock()
    claimed, attempt = _name_attempt(event)
    if claimed:
        set_log_context(claimed, attempt)
    message, context = _read(event), None
    if message is None:
        return NOT_OURS
    if isinstance(message, DevHost):  # the request comes before its run
        from lambdas.steps.signals import dev_hosts  # few events are such requests

        set_log_context(message.run)
        return Handled(result=dev_hosts.handle(yard, ledger, message, _person(event), now))
    if isinstance(message, More | AddPoint):
        # Few requests change a study, and each cold start would pay for these imports.
        from lambdas.steps.signals import study_requests

        set_log_context(message.run)
        return Handled(result=study_requests.handle(yard, ledger, message, event.source, now))
    if isinstance(message, Sent) and isinstance(message.signal, DevCredentials):  # its run may be over
        return Handled(result=credentials.give_to_dev_host(yard, message))
    if isinstance(message, ModelRequest):
        return Handled(result=from_people.change_model(yard, message, event.source))
    if isinstance(message, ScheduleRequest):
        return Handled(result=from_people.change_schedule(yard, message, event.source))
    try:
        context = _context(message, yard, ledger)
        if context is None:
            return NOT_OURS
        result = _handle(context, message, event, now)
    except Misconfigured as lost:
        assert context is not None, "only the rows of a run can be missing"
        result = (
            f"ended {format_count(attempts.give_up(ledger, context.run, lost, now), 'wait')}: {lost.reason}"
        )
    except AccessDenied as denied:
        run, attempt = (context.run, context.attempt) if context else (claimed, attempt)
        if run and (event.time is None or now - event.time >= DENIED_FOR):
            end_denied(ledger, run, attempt, denied, now)
        raise
    logger.info("%s: %s", event.detail_type, result)
    return Handled(result=result)


def _read(event: Event) -> RunEvent | Request | None:
    """Return the content of the event; None if this version does not handle such events."""
    if sender := sources.sending_host(event.source):
        return _read_signal(sender, event)
    if sources.sending_user(event.source):
        return _read_request(event)
    if event.source == sources.PATROL:
        message = PATROL_EVENTS.get(event.detail_type)
        return parse(message, event.detail, of="signal") if message else None
    kind = AWS_EVENTS.get(event.detail_type)
    return parse(kind, event.detail, of="signal") if kind else None


def _read_signal(sender: str, event: Event) -> Sent | None:
    """Return the signal if its host sent it. IAM authenticates only the sender; the content may name another host."""
    sent = signals.decode(event.detail_type, event.detail)
    if isinstance(sent, str):
        logger.warning("%s is not a valid signal and is ignored: %s", event.detail_type, sent)
        return None
    for value in sent.left_out:
        logger.warning("%s of %s is read without a value: %s", event.detail_type, sender, value)
    if sent.instance != sender:
        _count_forged(f"{sender} sent {event.detail_type} in the name of {sent.instance}")
        return None
    return sent


def _read_request(event: Event) -> Request | None:
    """Return the request; None if it is malformed, which is not a fault of the yard."""
    request = requests.decode(event.detail_type, event.detail)
    if isinstance(request, str):
        logger.warning("%s is ignored: %s", event.detail_type, request)
        return None
    return request


def _person(event: Event) -> str:
    return sources.sending_user(event.source) or ""


def _count_forged(what: str) -> None:
    logger.error("%s: ignored", what)
    measure(Metric.FORGED_SIGNALS, what=what)


def _context(message: RunEvent, yard: SignalSettings, ledger: Ledger) -> SignalContext | None:
    """Return the run and attempt of the event. Hosts and patrol name them; events of AWS are matched by the look-up
    rows. A host may name the run that it was launched for; a request for a hold names the run in the host's tag."""
    match message:
        case Sent():
            set_log_context(message.run, message.attempt)
            if not isinstance(message.signal, Hold) and not _is_of_its_run(message, ledger):
                return None
            return SignalContext(yard, ledger, message.run, message.attempt)
        case AtCap() | StillStopping() | MayGrow() | Forgotten() | StudyEnds() | RunsEnded() | Leave():
            set_log_context(message.run, message.attempt)
            return SignalContext(yard, ledger, message.run, message.attempt)
        case Stop() | EndWarmHosts():
            set_log_context(message.run)
            return SignalContext(yard, ledger, message.run, 1)
        case SpotWarning() | InstanceState() | ImageState() | CommandStatus():
            kind, name = from_aws.name_resource(message)
            owner = ledger.owner(kind, name)
            if owner is None:
                logger.info("%s %s: not of this yard", kind, name)
                return None
            set_log_context(owner.run, owner.attempt)
            return SignalContext(yard, ledger, owner.run, owner.attempt, owner.wait)
    assert_never(message)


def _is_of_its_run(message: Sent, ledger: Ledger) -> bool:
    owner = ledger.owner("instance", message.instance)
    if owner is None:
        logger.info("%s: not a host of this yard", message.instance)
        return False
    if owner.before is not None and owner.before == message.run:
        logger.info("%s: a late signal about %s, for which it was launched", message.instance, message.run)
        return False
    if owner.run != message.run:
        _count_forged(f"{message.instance}, a host of {owner.run}, sent a signal about the run {message.run}")
    return owner.run == message.run


def _handle(context: SignalContext, message: RunEvent, event: Event, now: datetime) -> str:
    match message:
        case Sent():
            return from_hosts.handle(context, message, now)
        case AtCap() | StillStopping() | MayGrow() | Forgotten() | StudyEnds() | RunsEnded() | Leave():
            return from_patrol.handle(context, message, now)
        case Stop():
            return from_people.stop(context, _person(event), now)
        case EndWarmHosts():
            return warm_hosts.end(context, _person(event), now)
        case SpotWarning() | InstanceState() | ImageState() | CommandStatus():
            return from_aws.handle(context, message, event.time or now, now)
    assert_never(message)


def _name_attempt(event: Event) -> tuple[str, int]:
    """Return the run and attempt that the event names, even in a malformed event; an empty run if it names none."""
    detail = event.detail if isinstance(event.detail, Mapping) else {}
    run, attempt = detail.get("run", ""), detail.get("attempt", 1)
    return printable(str(run), MOST_NAMED), attempt if isinstance(attempt, int) else 1
