"""Injected faults. Each is one admin call and one `localcloud fault` command."""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ministack.core.responses import request_scope
from moto.ec2.models.instance_types import INSTANCE_TYPES

from localcloud.base.quantities import format_count
from localcloud.machine.hypervisor import HostNotRunningError
from localcloud.server import admin
from localcloud.server.admin import Json
from localcloud.server.throttling import throttle
from localcloud.services.cloudwatch import gpu_metrics
from localcloud.services.ec2 import gpu_faults
from localcloud.services.ec2.actions.base import Ec2
from localcloud.services.ec2.capacity.allocation import Pool
from localcloud.services.ec2.faults import KEPT_SNAPSHOT_CODES, Impairment
from localcloud.services.ec2.instances import spot_requests
from localcloud.services.ec2.instances.lifecycle import gpus_of
from localcloud.services.ec2.store.records import (
    LIVE,
    LOCK,
    InterruptionNotice,
    everything,
    find_anywhere,
    here,
    now,
)
from localcloud.services.ecr import faults as registries
from localcloud.services.eventbridge import service_events
from localcloud.services.iam.delay import delay
from localcloud.services.ssm.agent import unknown

MARKETS = ("spot", "on-demand")


def install(ec2: Ec2) -> None:
    faults = Faults(ec2)
    for path, action in {
        "interrupt": faults.interrupt,
        "kill": faults.kill,
        "freeze": faults.freeze,
        "cut": faults.cut,
        "oom": faults.oom,
        "xid": faults.xid,
        "kernel": faults.kernel,
        "gpu": faults.gpu,
        "refuse": faults.refuse,
        "allow": faults.allow,
        "throttle": faults.throttle,
        "image-fail": faults.image_fail,
        "image-slow": faults.image_slow,
        "snapshot-stuck": faults.snapshot_stuck,
        "lose": faults.lose,
        "metrics": faults.metrics,
        "unregister": faults.unregister,
        "iam-delay": faults.iam_delay,
        "registry": faults.registry,
        "clear": faults.clear,
    }.items():
        admin.route("POST", f"/faults/{path}", action)
    admin.route("GET", "/faults", faults.active)


@contextmanager
def _refused_while_booting(instance_id: str) -> Iterator[None]:
    try:
        yield
    except HostNotRunningError as early:
        raise admin.Refused(f"{instance_id} is still booting; try again in a second") from early


class Faults:
    """The admin calls. Each takes a JSON object and returns the resulting state."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2

    def interrupt(self, request: Json) -> Json:
        """Interrupt a spot host: a notice in its metadata and an event now, its end after the warning time.

        {"instance_id", "seconds" (default: the settings' warning time)}
        """
        host = _host(request)
        with request_scope(host.owner_id, host.region_name), LOCK:
            behind = spot_requests.request_of(host)
            if behind is None:
                raise admin.Refused(
                    f"{host.id} is an on-demand instance: only spot instances are interrupted"
                )
            if host.id in here().notices:
                raise admin.Refused(
                    f"{host.id} already has its interruption notice: it ends at {here().notices[host.id].at}"
                )
            seconds = _number(request, "seconds", self._ec2.settings.interruption.warning_seconds)
            action, at = behind.interruption_behavior, now() + timedelta(seconds=seconds)
            here().notices[host.id] = InterruptionNotice(action, at)
            announce(host, action)
            self._ec2.lifecycle.interrupt_after(host, seconds)
            self._ec2.lifecycle.changed()
        return {"instance_id": host.id, "action": action, "at": at.isoformat()}

    def kill(self, request: Json) -> Json:
        """Terminate a host's instance without warning or shutdown. {"instance_id"}"""
        host = _host(request)
        with request_scope(host.owner_id, host.region_name), LOCK:
            self._ec2.lifecycle.fail(host)
        return {"instance_id": host.id}

    def freeze(self, request: Json) -> Json:
        """Stop every process of a host while EC2 reports it as running, for `seconds` or until cleared or rebooted.

        {"instance_id", "seconds" (default: unlimited)}
        """
        return self._impair(request, "frozen")

    def cut(self, request: Json) -> Json:
        """Drop all packets from and to a host, including its metadata service, for `seconds` or until cleared.

        {"instance_id", "seconds" (default: unlimited)}
        """
        return self._impair(request, "cut")

    def oom(self, request: Json) -> Json:
        """Kill the process of a host with the most memory. systemd then applies the OOMPolicy= of its unit.

        {"instance_id", "process" (a text of its command line)}
        """
        host, process = _host(request), str(request.get("process") or "")
        try:
            self._ec2.impairments.run_out_of_memory(host.id, process)
        except HostNotRunningError as early:
            raise admin.Refused(
                f"{host.id} is still booting and runs no process yet; try again in a second"
            ) from early
        return {"instance_id": host.id, "process": process}

    def xid(self, request: Json) -> Json:
        """Write an error of a GPU into the kernel's log of a host. {"instance_id", "number" (79)}"""
        host, number = _host(request), int(_number(request, "number", 79))
        with _refused_while_booting(host.id):
            self._ec2.impairments.report_xid(host.id, number)
        return {"instance_id": host.id, "xid": number}

    def kernel(self, request: Json) -> Json:
        """Write a message into the kernel's log of a host. {"instance_id", "text"}"""
        host, text = _host(request), " ".join(str(request.get("text") or "").split())
        if not text:
            raise admin.Refused("a message of the kernel has a text")
        with _refused_while_booting(host.id):
            self._ec2.impairments.report_kernel(host.id, text)
        return {"instance_id": host.id, "kernel": text}

    def gpu(self, request: Json) -> Json:
        """Let nvidia-smi report a fault of a host's GPU. {"instance_id", "kind" (of KINDS), "gpu" (0)}"""
        host, kind, number = _host(request), str(request.get("kind")), int(_number(request, "gpu", 0))
        count = gpus_of(host.instance_type)
        if kind not in gpu_faults.KINDS:
            raise admin.Refused(
                f"{kind} cannot be injected into a GPU; choose from {', '.join(gpu_faults.KINDS)}"
            )
        if not 0 <= number < count:
            raise admin.Refused(
                f"{host.id} is a {host.instance_type}, which has {format_count(count, 'GPU')}; they count from 0"
            )
        with _refused_while_booting(host.id):
            self._ec2.impairments.set_gpus(host.id, kind, number, count)
        return {"instance_id": host.id, "gpu": number, "kind": kind}

    def _impair(self, request: Json, kind: Impairment) -> Json:
        host, seconds = _host(request), _number_if_given(request, "seconds")
        try:
            until = self._ec2.impairments.impair(host.id, kind, seconds)
        except HostNotRunningError as early:
            raise admin.Refused(
                f"{host.id} is still booting and runs no process yet; try again in a second"
            ) from early
        return {"instance_id": host.id, "fault": kind, "until": until.isoformat() if until else None}

    def refuse(self, request: Json) -> Json:
        """Limit a capacity pool to `slots` hosts (0). {"instance_type", "zone", "market", "slots"}; "*" matches any."""
        pool, slots = self._pool(request), int(_number(request, "slots", 0))
        self._ec2.capacity.set(str(pool), slots)
        return {"pool": str(pool), "slots": slots}

    def allow(self, request: Json) -> Json:
        """Give a capacity pool unlimited room, despite the settings. {"instance_type", "zone", "market"}"""
        pool = self._pool(request)
        self._ec2.capacity.set(str(pool), None)
        return {"pool": str(pool), "slots": None}

    def throttle(self, request: Json) -> Json:
        """Refuse requests of an action or of a whole service: the next `times` (1), or all for `seconds`.

        {"action" ("ssm:SendCommand", for EC2's "CreateFleet", "s3:*"), "times", "seconds", "code" (default: the
        service's throttling error)}
        """
        action, seconds = str(request.get("action") or ""), _number_if_given(request, "seconds")
        times = (
            None
            if seconds is not None and request.get("times") is None
            else int(_number(request, "times", 1))
        )
        code = throttle.fail(action, request.get("code"), times, seconds)
        return {"action": action, "code": code, "times": times, "seconds": seconds}

    def image_fail(self, request: Json) -> Json:
        """Fail the next `times` (1) images that are created. {"times", "reason"}"""
        reason = str(request.get("reason") or "Injected fault.")
        times = int(_number(request, "times", 1))
        self._ec2.image_faults.fail(reason, times)
        return {"times": times, "reason": reason}

    def image_slow(self, request: Json) -> Json:
        """Delay each image that is created from now on by `seconds` beyond the settings. 0 completes the delayed ones.

        {"seconds"}
        """
        seconds = _number(request, "seconds", 0)
        self._ec2.image_faults.slow_down(seconds)
        return {"seconds": seconds}

    def snapshot_stuck(self, request: Json) -> Json:
        """Leave the snapshots of the next `times` (1) images behind when they are deregistered with their snapshots.

        {"code" (the code in the answer; default: internal-error), "times"}
        """
        code = str(request.get("code") or KEPT_SNAPSHOT_CODES[0])
        if code not in KEPT_SNAPSHOT_CODES:
            raise admin.Refused(f"{code!r} is not a ReturnCode; allowed: {', '.join(KEPT_SNAPSHOT_CODES)}")
        times = int(_number(request, "times", 1))
        self._ec2.image_faults.keep_snapshots(code, times)
        return {"code": code, "times": times}

    def lose(self, request: Json) -> Json:
        """Drop the next `times` events of a kind, or all of them.

        {"detail_type" (may be a pattern), "times"}
        """
        wanted = str(request.get("detail_type") or "")
        kinds = fnmatch.filter(service_events.BEST_EFFORT, wanted)
        if not kinds:
            raise admin.Refused(
                f"no event that AWS may lose has the detail type {wanted!r}; there are "
                + ", ".join(service_events.BEST_EFFORT)
            )
        times = None if request.get("times") is None else int(_number(request, "times", 0))
        for kind in kinds:
            service_events.lost_events.set(kind, True, times)
        return {"detail_types": kinds, "times": times}

    def metrics(self, request: Json) -> Json:
        """Stop the GPU metrics of one host, or of all hosts.

        {"instance_id" (default: all), "seconds" (default: unlimited)}
        """
        who = str(_host(request).id) if request.get("instance_id") else gpu_metrics.EVERY_HOST
        seconds = _number_if_given(request, "seconds")
        gpu_metrics.muted_hosts.set(who, seconds)
        return {"silent": who, "seconds": seconds}

    def unregister(self, request: Json) -> Json:
        """Hide a host from Systems Manager, as if its agent had never registered. The host works.

        {"instance_id", "seconds" (default: unlimited)}
        """
        host, seconds = _host(request), _number_if_given(request, "seconds")
        unknown.set(str(host.id), seconds)
        return {"unregistered": host.id, "seconds": seconds}

    def iam_delay(self, request: Json) -> Json:
        """Let new, changed and removed roles and instance profiles take effect `seconds` (10) later. {"seconds"}"""
        delay.set(_number(request, "seconds", 10))
        return {"iam_delay": delay.seconds}

    def registry(self, request: Json) -> Json:
        """Fail the next `times` (1) requests for images, or all of them for `seconds`.

        {"kind", "image" (REGISTRY/REPOSITORY with wildcards; default: every image), "times", "seconds"}
        """
        kind, image = str(request.get("kind") or ""), str(request.get("image") or registries.EVERY_IMAGE)
        if kind not in list(registries.Kind):
            raise admin.Refused(
                f"{kind!r} is an unknown fault of registries; there are {', '.join(registries.Kind)}"
            )
        seconds = _number_if_given(request, "seconds")
        is_lasting = seconds is not None and request.get("times") is None
        times = None if is_lasting else int(_number(request, "times", 1))
        registries.inject(registries.Kind(kind), image, times, seconds)
        return {"kind": kind, "image": image, "times": times, "seconds": seconds}

    def clear(self, request: Json) -> Json:
        """End all faults, or the changes to one capacity pool if the request names one."""
        if request.get("instance_type"):
            pool = str(self._pool(request))
            if not self._ec2.capacity.unset(pool):
                changed = ", ".join(self._ec2.capacity.changed) or "none"
                raise admin.Refused(f"nothing was changed for the pool {pool}; changed pools: {changed}")
            return {"cleared": [pool]}
        cleared = [
            *self._ec2.capacity.changed,
            *throttle.list_throttled(),
            *self._ec2.image_faults.active(),
            *service_events.lost_events.active(),
            *(f"{who} metrics" for who in gpu_metrics.muted_hosts.active()),
            *(f"{who} unregistered" for who in unknown.active()),
            *(["iam-delay"] if delay.seconds else []),
            *registries.active(),
            *self._ec2.impairments.end_all(),
        ]
        self._ec2.capacity.changed.clear()
        throttle.clear()
        self._ec2.image_faults.clear()
        service_events.lost_events.clear()
        gpu_metrics.muted_hosts.clear()
        unknown.clear()
        registries.clear()
        delay.set(0.0)
        return {"cleared": cleared}

    def active(self, request: Json) -> Json:
        notices = {
            instance_id: {"action": notice.action, "at": notice.at.isoformat()}
            for kept in everything().values()
            for instance_id, notice in kept.notices.items()
        }
        return {
            "capacity": self._ec2.capacity.changed,
            "throttled": throttle.list_throttled(),
            "interrupted": notices,
            "impaired": self._ec2.impairments.active(),
            "images": self._ec2.image_faults.active(),
            "lost": {kind: times for kind, (_, times) in service_events.lost_events.active().items()},
            "silent": gpu_metrics.muted_hosts.active(),
            "unregistered": unknown.active(),
            "iam_delay": delay.seconds,
            "registries": registries.active(),
        }

    def _pool(self, request: Json) -> Pool:
        """Return the capacity pool or pattern of pools. Each part must match something that exists."""
        pool = Pool(*(str(request.get(name) or "*") for name in ("instance_type", "zone", "market")))
        pool = replace(pool, market=pool.market.replace("_", "-"))
        zones = self._ec2.settings.zones
        if not fnmatch.filter(INSTANCE_TYPES, pool.instance_type):
            like = difflib.get_close_matches(pool.instance_type, INSTANCE_TYPES, 3) or [
                "g6.xlarge",
                "g6.*",
                "*",
            ]
            raise admin.Refused(
                f"unknown instance type {pool.instance_type!r}; allowed: {', '.join(like)} ..."
            )
        if not fnmatch.filter(zones, pool.zone):
            raise admin.Refused(f"unknown zone {pool.zone!r}; allowed: {', '.join(zones)}, *")
        if not fnmatch.filter(MARKETS, pool.market):
            raise admin.Refused(f"unknown market {pool.market!r}; allowed: {', '.join(MARKETS)}, *")
        return pool


def announce(host: Any, action: str) -> None:
    """Emit the events of an interruption notice."""
    arn = f"arn:aws:ec2:{host.region_name}:{host.owner_id}:instance/{host.id}"
    service_events.emit("aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": host.id}, [arn])
    detail = {"instance-id": host.id, "instance-action": action}
    service_events.emit("aws.ec2", "EC2 Spot Instance Interruption Warning", detail, [arn])


def _number(request: Json, name: str, default: float) -> float:
    given = request.get(name)
    try:
        number = float(default if given is None else given)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise admin.Refused(f"{name} is a number from 0, not {given!r}")
    return number


def _number_if_given(request: Json, name: str) -> float | None:
    return None if request.get(name) is None else _number(request, name, 0)


def _host(request: Json) -> Any:
    instance_id = str(request.get("instance_id") or "")
    found = find_anywhere(instance_id)
    if found is None:
        raise admin.Refused(f"unknown instance {instance_id!r}; `aws ec2 describe-instances` lists them")
    if found.state not in LIVE:
        raise admin.Refused(f"{instance_id} is {found.state}: only a pending or running host can fail")
    return found
