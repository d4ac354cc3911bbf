"""The observation of one pass of patrol: every host of the yard, with a verdict. Nothing here acts.

No host is judged with incomplete metrics, because the next pass is a minute away. An error of EC2 or Step Functions is
raised and ends the pass. An error of CloudWatch or Systems Manager only postpones the verdicts that depend on use."""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import cached_property

from lambdas.aws import cloudwatch, ssm, states
from lambdas.aws.cloudwatch import GPUS, IN_USE, Series
from lambdas.aws.dynamodb.logbook import Logbook, Opened
from lambdas.aws.ec2 import images, instances
from lambdas.aws.ec2.instances import Instance
from lambdas.core.capacity.prices import Prices
from lambdas.core.patrol import guard, judgement, report
from lambdas.core.patrol.judgement import ENDING_STATES, ObservedHost
from lambdas.core.patrol.usage import Window
from lambdas.core.patrol.verdict import Earlier, NeedsMetrics, Verdict
from lambdas.core.run import host_claims
from lambdas.core.run.host_claims import Settled
from lambdas.core.run.slots import YardLimits
from lambdas.environment import AdmitSettings
from lambdas.steps.observability import logger
from trainyard.core.model import names
from trainyard.core.model.errors import Misconfigured
from trainyard.core.model.instance_types import catalog
from trainyard.core.model.yard import policy, warm
from trainyard.core.model.yard.policy import Policy
from trainyard.protocol.ledger.yard import Money
from trainyard.protocol.tags import Tag
from trainyard.protocol.verdicts import Cause
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.validation import InputFaults


class PatrolSettings(AdmitSettings):
    aws_region: str
    topic_arn: str
    snapshot_state_machine_arn: str
    state_machine_arns: tuple[str, ...]
    """The state machines whose executions keep hosts, including the one for snapshots."""
    policy: str
    """The yard's policy as JSON."""
    most_hosts: int = 0
    most_hold_hours: float = 0.0
    """The yard's limits for hosts that are started again; 0: no limit."""
    most_runs: int = 0
    """The most training runs at once; 0: no limit."""
    preempt: bool = False
    """True if a running run leaves for a waiting run of a higher priority."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The hosts of the yard in one pass, with their verdicts."""

    hosts: Mapping[str, ObservedHost]
    """Hosts that are not terminated."""
    ended: tuple[Instance, ...]
    """Hosts that were terminated within the last hour."""
    live: frozenset[str]
    """The names of all running executions."""
    verdicts: Mapping[str, Verdict]
    """Verdicts by host. A host that is judged by its use lacks one if its metrics were not due or could not be read."""
    asked: int = 0
    """The number of hosts whose metrics were read, in this pass or when they were last due."""
    missing: int = 0
    """How many of the `asked` had no metrics."""
    problems: tuple[str, ...] = ()
    trouble: Exception | None = None
    """The error that prevented the reading of metrics."""
    peaks: Mapping[str, float] = field(default_factory=dict)
    """The highest utilization in percent of each host with metrics in this pass."""
    settled: Settled = field(default_factory=Settled)

    @cached_property
    def earlier(self) -> dict[str, Earlier]:
        """Return the earlier verdicts. They are cached, because a pass reads them for each changed verdict."""
        return {name: host.earlier for name, host in self.hosts.items() if host.earlier}


def policy_of(yard: PatrolSettings) -> Policy:
    """Parse the policy of the yard."""
    found = policy.read_policy(json.loads(yard.policy), path="policy")
    if isinstance(found, InputFaults):
        raise Misconfigured(
            f"The yard's policy cannot be read ({'; '.join(map(str, found.faults))}). Deploy it again."
        )
    return found


def observe(
    yard: PatrolSettings,
    prices: Prices,
    book: Logbook,
    now: datetime,
    *,
    opened: Opened | None,
    money: Money | None,
) -> Observation:
    """Observe the hosts, then the executions: a run that begins in between has no host in this observation."""
    found = instances.find_in_yard(yard.yard)
    running = {machine: states.list_running([machine]) for machine in sorted(set(yard.state_machine_arns))}
    live = frozenset().union(*running.values())
    hosts, problems = _observe_hosts(found, live, policy_of(yard), prices, now)
    if any(host.run not in live for host in hosts.values()):
        hosts = _add_imaging(
            hosts, images.being_made(yard.yard), running[yard.snapshot_state_machine_arn], book
        )
    settled = _settle_claims(yard, hosts, opened, money, now)
    hosts = {name: settled.of(host) for name, host in hosts.items()}
    first = {
        name: judgement.judge(host, now) for name, host in hosts.items() if host.state not in ENDING_STATES
    }
    by_use = {name: hosts[name] for name, answer in first.items() if isinstance(answer, NeedsMetrics)}
    used, trouble = _add_use(by_use, now)
    windows = {name: host.window for name, host in used.items() if host.window is not None}
    told = {name: host.requested_metrics for name, host in used.items() if host.requested_metrics}
    before = [
        host.earlier.word.cause for host in used.values() if not host.requested_metrics and host.earlier
    ]
    waiting = [cause for cause in before if cause and cause.is_by_metrics]
    second = {name: judgement.judge(host, now) for name, host in used.items()}
    return Observation(
        hosts=hosts,
        settled=settled if opened else Settled(),
        ended=tuple(host for host in found if host.id not in hosts),
        live=live,
        verdicts={
            name: answer for name, answer in {**first, **second}.items() if isinstance(answer, Verdict)
        },
        asked=len(told) + len(waiting),
        missing=sum(any(window.is_empty for window in each) for each in told.values())
        + waiting.count(Cause.UNKNOWN),
        problems=problems,
        trouble=trouble,
        peaks={name: window.peak for name, window in windows.items() if not window.is_empty},
    )


def _settle_claims(
    yard: PatrolSettings,
    hosts: Mapping[str, ObservedHost],
    opened: Opened | None,
    money: Money | None,
    now: datetime,
) -> Settled:
    """Return the holds and claims after the limits of the yard. If the claims cannot be read, holds still end, and no
    host is stopped because of a limit."""
    limits = YardLimits(hosts=yard.most_hosts, month=yard.monthly_dollars) if opened else YardLimits()
    return host_claims.settle(
        hosts.values(),
        opened.claims if opened else (),
        {each.run for each in opened.runs} if opened else (),
        limits=limits,
        money=money,
        most_hold=timedelta(hours=yard.most_hold_hours),
        now=now,
    )


def price_of(host: Instance, prices: Prices) -> float:
    """Return dollars an hour from the tag that Launch wrote, else the on-demand price, which is never too low."""
    return prices.on_demand(host.type) or 0.0 if host.price is None else host.price


def _observe_hosts(
    found: tuple[Instance, ...], live: frozenset[str], yard: Policy, prices: Prices, now: datetime
) -> tuple[dict[str, ObservedHost], tuple[str, ...]]:
    hosts: dict[str, ObservedHost] = {}
    problems: dict[str, list[str]] = {}
    for host in found:
        if host.state not in instances.LIVE:
            continue
        hosts[host.id], wrong = _observe_host(host, live, yard, prices, now)
        for each in wrong:
            problems.setdefault(each, []).append(host.id)
    return hosts, report.problems(problems)


def _observe_host(
    host: Instance, live: frozenset[str], yard: Policy, prices: Prices, now: datetime
) -> tuple[ObservedHost, list[str]]:
    tags = host.tags
    judged_by, wrong = policy.host_policy(yard, tags)
    problems = list(wrong)
    run, kind = tags.get(Tag.RUN), tags.get(Tag.KIND, "train")
    lease, held, cap, ready = (
        _parse_time(tags, name, problems) for name in (Tag.LEASE, Tag.HOLD, Tag.CAP, Tag.READY)
    )
    known = catalog().types.get(host.type)
    observed = ObservedHost(
        instance=host.id,
        type=host.type,
        market=host.market,
        state=host.state,
        launched=host.launched,
        changed=host.changed,
        price=price_of(host, prices),
        prices=prices,
        disk_gib=host.disk_gib,
        volume_charge=host.volume_charge,
        made=host.attached,
        run=run,
        kind=kind,
        live=run in live,
        stays=tags.get(Tag.AFTER) == "stop",
        ready=ready,
        lease=lease if kind == "dev-host" else None,
        run_lease=lease if kind != "dev-host" else None,
        held=held,
        cap=cap,
        owner=tags.get(Tag.SUBMITTER),
        warm=warm.warm_until(tags),
        dev=tags.get(Tag.DEV),
        judged_by=tags.get(Tag.JUDGED_BY),
        gpus=known.gpus if known else 1,
        vcpus=known.vcpus if known else 1,
        earlier=Earlier.of_tag(tags.get(Tag.VERDICT), now),
        policy=judged_by,
    )
    return observed, problems


def _parse_time(tags: Mapping[str, str], name: str, problems: list[str]) -> datetime | None:
    """Return the time in the tag. A malformed tag is ignored and reported."""
    text = tags.get(name)
    try:
        return serialization.parse_timestamp(text) if text else None
    except ValueError:
        problems.append(f"the tag {name} is {text!r}; an instant like 2026-11-20T18:00Z is allowed")
        return None


def _add_imaging(
    hosts: dict[str, ObservedHost], imaged: Mapping[str, str], snapshots: frozenset[str], book: Logbook
) -> dict[str, ObservedHost]:
    """Add the image or snapshot that is being made of each host: by EC2, by an archive of patrol, or by a snapshot of a
    user."""
    archived = {host: name for name in snapshots if (host := names.archived_host(name))}
    others = book.runs(name for name in snapshots if not names.archived_host(name))
    asked = {row.imaging.instance: name for name, row in others.items() if row.imaging}
    by = {**imaged, **asked, **archived}
    return {name: replace(host, imaging=by.get(name)) for name, host in hosts.items()}


def _add_use(
    hosts: Mapping[str, ObservedHost], now: datetime
) -> tuple[dict[str, ObservedHost], Exception | None]:
    """Return these hosts with their users and, if due, their metrics; none if AWS does not return them."""
    try:
        seen = _add_sessions(hosts)
        due = {name: host for name, host in seen.items() if _needs_use(host, now) and guard.is_due(host, now)}
        told = _read_minute_metrics(due, now)
        due = {
            name: replace(host, window=told.get((GPUS, name)), use=told.get((IN_USE, name)))
            for name, host in due.items()
        }
        quiet = {name: host for name, host in due.items() if _needs_use(host, now)}
        processors = _read_processors(quiet, now)
    except Exception as error:  # noqa: BLE001 - orphans must end in spite of it: patrol raises it at the end
        logger.exception("no host is judged by its use in this pass")
        return {}, error
    return seen | {name: replace(host, processors=processors.get(name)) for name, host in due.items()}, None


def _needs_use(host: ObservedHost, now: datetime) -> bool:
    return isinstance(judgement.judge(host, now), NeedsMetrics)


def _add_sessions(hosts: Mapping[str, ObservedHost]) -> dict[str, ObservedHost]:
    """Add open sessions and commands. This is called only for hosts whose verdict depends on them."""
    if not hosts:
        return {}
    sessions, commanded = ssm.list_sessions(), ssm.list_commanded_hosts()
    return {
        name: replace(
            host,
            session=any(not each.startswith(ssm.FORWARDS) for each in sessions.get(name, ())),
            forward=any(each.startswith(ssm.FORWARDS) for each in sessions.get(name, ())),
            command=name in commanded,
        )
        for name, host in hosts.items()
    }


def _read_minute_metrics(hosts: Mapping[str, ObservedHost], now: datetime) -> dict[Series, Window]:
    """Read the metrics with a period of one minute: utilization of GPUs, and use of dev hosts."""
    found: dict[Series, Window] = {}
    for minutes, together in _group_by_window(hosts).items():
        asked = [(GPUS, name) for name in together if hosts[name].gpus]
        asked += [(IN_USE, name) for name in together if hosts[name].dev]
        found |= cloudwatch.read_windows(asked, minutes=minutes, now=now)
    return found


def _read_processors(hosts: Mapping[str, ObservedHost], now: datetime) -> dict[str, Window]:
    found: dict[str, Window] = {}
    for minutes, together in _group_by_window(hosts).items():
        found |= cloudwatch.read_processors(together, minutes=minutes, now=now)
    return found


def _group_by_window(hosts: Mapping[str, ObservedHost]) -> dict[int, list[str]]:
    """Group the hosts by the length of their window."""
    lengths: dict[int, list[str]] = {}
    for name, host in hosts.items():
        lengths.setdefault(round(host.policy.window_minutes), []).append(name)
    return lengths
