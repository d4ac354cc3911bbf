"""Things that go wrong on AWS, made to go wrong here: each is one admin call, and one `localcloud fault` command."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ministack.core.responses import request_scope

from localcloud import admin, events
from localcloud.ec2 import spot, throttle
from localcloud.ec2.allocation import Pool
from localcloud.ec2.records import Notice, everything, here, instance, now
from localcloud.ec2.transport import LOCK
from localcloud.ec2.world import world

if TYPE_CHECKING:
    from localcloud.context import Context

Request = dict[str, Any]
LIVE = ("pending", "running")


def install(context: Context) -> None:
    """Answer `/_localcloud/faults/...`."""
    admin.route("POST", "/faults/interrupt", interrupt)
    admin.route("POST", "/faults/kill", kill)
    admin.route("POST", "/faults/refuse", refuse)
    admin.route("POST", "/faults/allow", allow)
    admin.route("POST", "/faults/throttle", throttled)
    admin.route("POST", "/faults/clear", clear)
    admin.route("GET", "/faults", standing)


def interrupt(request: Request) -> dict[str, Any]:
    """EC2 wants a spot host back: a notice in its metadata and an event now, its end after the warning time.

    {"instance_id", "seconds" (else the facts' warning time)}
    """
    host = _host(request)
    with request_scope(host.owner_id, host.region_name), LOCK:
        behind = spot.request_of(host)
        if behind is None:
            raise admin.Refused(f"{host.id} is an on-demand instance: only spot instances are interrupted")
        if host.id in here().notices:
            raise admin.Refused(f"{host.id} has its notice already: it ends at {here().notices[host.id].at}")
        given = request.get("seconds")
        seconds = float(world().facts.interruption.warning_seconds if given is None else given)
        action, at = behind.interruption_behavior, now() + timedelta(seconds=seconds)
        here().notices[host.id] = Notice(action, at)
        announce(host, action)
        world().lifecycle.interrupt_after(host, seconds)
        world().lifecycle.changed()
    return {"instance_id": host.id, "action": action, "at": at.isoformat()}


def announce(host: Any, action: str) -> None:
    """The events that come with an interruption notice."""
    arn = f"arn:aws:ec2:{host.region_name}:{host.owner_id}:instance/{host.id}"
    events.emit("aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": host.id}, [arn])
    detail = {"instance-id": host.id, "instance-action": action}
    events.emit("aws.ec2", "EC2 Spot Instance Interruption Warning", detail, [arn])


def kill(request: Request) -> dict[str, Any]:
    """A host vanishes: nobody is warned, nothing is written, EC2 terminates the instance. {"instance_id"}"""
    host = _host(request)
    world().hypervisor.kill(host.id)
    return {"instance_id": host.id}


def refuse(request: Request) -> dict[str, Any]:
    """A pool takes only `slots` (0) hosts from now on. {"instance_type", "zone", "market", "slots"}; "*" is any."""
    pool, slots = _pool(request), int(request.get("slots") or 0)
    world().capacity.set(str(pool), slots)
    return {"pool": str(pool), "slots": slots}


def allow(request: Request) -> dict[str, Any]:
    """A pool has room without end from now on, whatever the facts say. {"instance_type", "zone", "market"}"""
    pool = _pool(request)
    world().capacity.set(str(pool), None)
    return {"pool": str(pool), "slots": None}


def throttled(request: Request) -> dict[str, Any]:
    """The next `times` (1) requests of an EC2 action fail. {"action", "times", "code" (RequestLimitExceeded)}"""
    action = request.get("action")
    if not action:
        raise admin.Refused('say which EC2 action, for example {"action": "CreateFleet", "times": 2}')
    code, times = str(request.get("code") or "RequestLimitExceeded"), int(request.get("times", 1))
    throttle.throw(str(action), code, times)
    return {"action": action, "code": code, "times": times}


def clear(request: Request) -> dict[str, Any]:
    """Every pool has the capacity of the facts again and no call is throttled; or one pool, when it is named."""
    if request.get("instance_type"):
        pool = _pool(request)
        world().capacity.unset(str(pool))
        return {"cleared": [str(pool)]}
    cleared = [*world().capacity.changed, *throttle.standing()]
    world().capacity.changed.clear()
    throttle.clear()
    return {"cleared": cleared}


def standing(request: Request) -> dict[str, Any]:
    """The faults that last."""
    notices = {
        instance_id: {"action": notice.action, "at": notice.at.isoformat()}
        for kept in everything().values()
        for instance_id, notice in kept.notices.items()
    }
    return {"capacity": world().capacity.changed, "throttled": throttle.standing(), "interrupted": notices}


def _pool(request: Request) -> Pool:
    parts = Pool(*(str(request.get(name) or "*") for name in ("instance_type", "zone", "market")))
    market = parts.market.replace("_", "-")
    if market not in ("spot", "on-demand", "*"):
        raise admin.Refused(f"market is spot, on-demand or *, not {parts.market!r}")
    if parts.zone != "*" and parts.zone not in world().facts.zones:
        raise admin.Refused(f"there is no zone {parts.zone!r}; there are {', '.join(world().facts.zones)}")
    return Pool(parts.instance_type, parts.zone, market)


def _host(request: Request) -> Any:
    instance_id = str(request.get("instance_id") or "")
    for account, region in list(everything()):
        with request_scope(account, region), LOCK:
            found = instance(instance_id)
        if found is not None and found.state in LIVE:
            return found
        if found is not None:
            raise admin.Refused(f"{instance_id} is {found.state}: only a pending or running host can fail")
    raise admin.Refused(f"there is no instance {instance_id!r}; `aws ec2 describe-instances` lists them")
