"""Signal: every event about a live attempt, from its hosts, people, AWS and patrol. Brings task tokens back.

An event about another account's instance, or about a run that is over, is logged and ignored. An access error ends the
run with that error if Lambda's next try of the same event, a minute later, still meets it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar, assert_never

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.edges import events
from lambdas.core.edges.events import (
    CommandStatus,
    DevAsked,
    Event,
    FromHost,
    FromPatrol,
    FromPerson,
    Handled,
    ImageState,
    InstanceState,
    SpotWarning,
)
from lambdas.needs import Needs, may
from lambdas.steps import attempts
from lambdas.steps.access_denied import end_denied
from lambdas.steps.entry_point import entry_point, parse
from lambdas.steps.observability import clock, is_about, logger, measure
from lambdas.steps.signals import credentials, dev_hosts, from_aws, from_hosts, from_patrol, from_people
from lambdas.steps.signals.context import SignalContext, SignalSettings
from trainyard.core.model import dev
from trainyard.core.model.errors import AccessDenied, Misconfigured
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag
from trainyard.values import wire
from trainyard.values.text import printable

NewsOfRuns = FromHost | FromPatrol | FromPerson | events.AwsNews
News = NewsOfRuns | DevAsked
Wish = TypeVar("Wish", FromPerson, DevAsked)
NOT_OURS = Handled(result="nothing of ours")
MOST_NAMED = 80
"""Characters of a run's name, at most."""
DENIED_FOR = timedelta(seconds=45)
"""How old an event is when its denial counts: a permission may be missing for the seconds in which IAM applies a
change. Lambda tries an event again after one minute and after two more."""
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
        may("start executions", "launch", "snapshot"),
        may("invoke functions", "train-launch", "release"),
        may("run documents", "stop"),
        may("mark hosts", Tag.HOLD, Tag.POOL),
        may("read and list objects", keys.RUNS),
        may("write objects", keys.order(keys.ANY), keys.CREDENTIALS),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    ),
)


@entry_point
def handler(event: Event) -> Handled:
    yard = environment.read(SignalSettings)
    ledger, now = Ledger(yard.table_name), clock()
    claimed, attempt = _named(event)
    if claimed:
        is_about(claimed, attempt)
    news, context = _read(event), None
    if news is None:
        return NOT_OURS
    if isinstance(news, DevAsked):  # of a run that there is not yet
        is_about(news.run)
        by = events.person_of(event.source) or ""
        return Handled(result=dev_hosts.handle(yard, ledger, news, by, now))
    if isinstance(news, FromHost) and event.detail_type == dev.CREDENTIALS:  # of no run that goes on
        return Handled(result=credentials.give_to_dev_host(yard, news))
    try:
        context = _context(news, event.detail_type, yard, ledger)
        if context is None:
            return NOT_OURS
        result = _handle(context, news, event, now)
    except Misconfigured as lost:
        assert context is not None, "only a run's own records can be lost"
        result = f"{attempts.give_up(ledger, context.run, lost, now)} waits end: {lost.reason}"
    except AccessDenied as denied:
        run, attempt = (context.run, context.attempt) if context else (claimed, attempt)
        if run and (event.time is None or now - event.time >= DENIED_FOR):
            end_denied(ledger, run, attempt, denied, now)
        raise
    logger.info("%s: %s", event.detail_type, result)
    return Handled(result=result)


def _read(event: Event) -> News | None:
    """What the event says; None for what is no news that anybody here knows."""
    if sender := events.sender_of(event.source):
        return _from_host(sender, event)
    if events.person_of(event.source):
        if event.detail_type == dev.WORD:
            return _from_person(DevAsked, event)
        return _from_person(FromPerson, event)
    if event.source == events.OF_PATROL:
        return parse(FromPatrol, event.detail, of="signal")
    kind = events.AWS_NEWS.get(event.detail_type)
    return parse(kind, event.detail, of="signal") if kind else None


def _from_host(sender: str, event: Event) -> FromHost | None:
    """What that host says of itself. IAM vouches for the sender alone: what it writes may speak of another."""
    signal = events.host_signal(event.detail_type, event.detail)
    if isinstance(signal, str):
        logger.warning("%s is no signal and is ignored: %s", event.detail_type, signal)
        return None
    for value in signal.left_out:
        logger.warning("%s of %s is read without a value: %s", event.detail_type, sender, value)
    if signal.instance != sender:
        _count_forged(f"{sender} says {event.detail_type} in the name of {signal.instance}")
        return None
    return signal


def _from_person(kind: type[Wish], event: Event) -> Wish | None:
    """What somebody types is no fault of the yard's."""
    if wrong := wire.faults(kind, event.detail):
        logger.warning("%s is ignored: %s", event.detail_type, "; ".join(wrong))
        return None
    return wire.from_json(kind, event.detail)


def _count_forged(what: str) -> None:
    logger.error("%s: nothing was done", what)
    measure(Metric.FORGED_SIGNALS, what=what)


def _context(news: NewsOfRuns, word: str, yard: SignalSettings, ledger: Ledger) -> SignalContext | None:
    """Which run and attempt the news are about: hosts and patrol say it, for AWS's events the look-up rows do. A host
    speaks of the run that it was launched for; when it asks to be held, its own tag says which that is."""
    if isinstance(news, FromHost | FromPatrol):
        is_about(news.run, news.attempt)
        if isinstance(news, FromHost) and word != "hold" and not _is_of_its_run(news, ledger):
            return None
        return SignalContext(yard, ledger, news.run, news.attempt)
    if isinstance(news, FromPerson):
        is_about(news.run)
        return SignalContext(yard, ledger, news.run, 1)
    noun, name = from_aws.about(news)
    owner = ledger.owner(noun, name)
    if owner is None:
        logger.info("%s %s: not ours", noun, name)
        return None
    is_about(owner.run, owner.attempt)
    return SignalContext(yard, ledger, owner.run, owner.attempt, owner.wait)


def _is_of_its_run(news: FromHost, ledger: Ledger) -> bool:
    owner = ledger.owner("instance", news.instance)
    if owner is None:
        logger.info("%s: no host of this yard", news.instance)
        return False
    if owner.before is not None and owner.before == news.run:
        logger.info("%s: late news of %s, for which it was launched", news.instance, news.run)
        return False
    if owner.run != news.run:
        _count_forged(f"{news.instance}, a host of {owner.run}, speaks of the run {news.run}")
    return owner.run == news.run


def _handle(context: SignalContext, news: NewsOfRuns, event: Event, now: datetime) -> str:
    match news:
        case FromHost():
            return from_hosts.handle(context, event.detail_type, news, now)
        case FromPatrol():
            return from_patrol.handle(context, event.detail_type, now)
        case FromPerson():
            by = events.person_of(event.source) or ""
            return from_people.handle(context, event.detail_type, by, now)
        case SpotWarning() | InstanceState() | ImageState() | CommandStatus():
            return from_aws.handle(context, news, event.time or now, now)
        case _:
            assert_never(news)


def _named(event: Event) -> tuple[str, int]:
    """Return the run and the attempt that the event names, be it well formed or not; no run if it names none."""
    detail = event.detail if isinstance(event.detail, Mapping) else {}
    run, attempt = detail.get("run", ""), detail.get("attempt", 1)
    return printable(str(run), MOST_NAMED), attempt if isinstance(attempt, int) else 1
