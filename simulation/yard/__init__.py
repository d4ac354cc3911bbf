"""A yard deployed into a simulated account: all resources of its templates, in one world."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from simulation import assembly
from simulation.aws.cloudwatch import CloudWatch
from simulation.aws.dynamodb import DynamoDb
from simulation.aws.dynamodb.values import Row
from simulation.aws.ec2 import Ec2, Instance, ServiceQuotas
from simulation.aws.endpoint.api import ACCOUNT, PARTITION, Caller, Request
from simulation.aws.endpoint.gateway import Gateway, Service
from simulation.aws.endpoint.transport import TRANSPORT
from simulation.aws.eventbridge import Delivery, EventBridge
from simulation.aws.functions import ENVIRONMENTS, Functions
from simulation.aws.layers import LAYERS
from simulation.aws.notifications import Notifications
from simulation.aws.pricing import Pricing
from simulation.aws.s3 import S3
from simulation.aws.s3.buckets import Version
from simulation.aws.scheduler import Scheduler
from simulation.aws.ssm import Ssm
from simulation.aws.stepfunctions import Execution, Status, StepFunctions
from simulation.aws.sts import Sts
from simulation.faults import Plan
from simulation.hosts.environment import Host
from simulation.hosts.machines import Machines
from simulation.template import YardTemplate
from simulation.world.clock import CLOCK
from simulation.world.world import World
from simulation.yard.deployment import cached_iam, deploy
from simulation.yard.models import ModelUsers
from simulation.yard.network import Network
from simulation.yard.people import People
from simulation.yard.serving import HostUsers
from simulation.yard.wiring import Bridge, SimulatedHost
from trainyard.core.model.yard.metrics import NAMESPACE
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol import cluster, keys
from trainyard.protocol.cluster import Cluster
from trainyard.protocol.tags import Tag

MINUTE = timedelta(minutes=1)
GPU_METRIC = ("Trainyard", "nvidia_smi_utilization_gpu")
CPU_METRIC = ("AWS/EC2", "CPUUtilization")
USE_METRIC = ("Trainyard", "InUse")
AGENTS_PERCENT = 0.1
"""The CPU usage of a host on which only agents run."""


class Yard:
    """A deployed yard; `plan` holds the faults."""

    def __init__(self, world: World, template: YardTemplate, plan: Plan | None = None) -> None:
        self.world, self.template, self.plan = world, template, plan or Plan()
        self.iam = cached_iam(template)
        self.functions = Functions(world, template.functions)
        self.events = EventBridge(
            world, template.rules, self._deliver, self._start_by_rule, buses=[template.bus.name]
        )
        self.stepfunctions = StepFunctions(world, self._invoke, self.events.emit, iam=self.iam)
        self.machines = Machines(world, self._host, puts_metrics=False, has_agent=self._has_agent)
        self.ec2 = Ec2(world, self.events.emit, Bridge(self))
        self.ssm = Ssm(world, self.ec2, self.events.emit)
        self.s3 = S3(world, self._object_created, self.iam.may)
        self.dynamodb = DynamoDb(world)
        self.cloudwatch = CloudWatch(world)
        self.notifications = Notifications(world, self.functions.event)
        self.scheduler = Scheduler(world, self.iam, self.functions.event)
        self.sts = Sts(world, self.iam)
        services: dict[str, Service] = {
            "ec2": self.ec2,
            "ssm": self.ssm,
            "s3": self.s3,
            "dynamodb": self.dynamodb,
            "cloudwatch": self.cloudwatch,
            "scheduler": self.scheduler,
            "sns": self.notifications,
            "sts": self.sts,
            "service-quotas": ServiceQuotas(self.ec2.pools),
            "pricing": Pricing(self.ec2.catalogue.settings),
            "stepfunctions": self.stepfunctions,
            "events": self.events,
            "lambda": self.functions,
        }
        self.gateway = Gateway(world, services, self.iam)
        self.on_object: list[Callable[[str], None]] = []
        """Called with the key of every object that is written."""
        self.in_use: Callable[[datetime], float | None] = lambda at: 0.0
        """The report of a dev host's agent for a minute: 0 unused, 1 kernels, 2 terminals."""
        self.people = People(self)
        self.model_users = ModelUsers(self)
        self.host_users = HostUsers(self)
        self.network = Network(world, self.plan, self.functions, self.gateway, self.people.delete_all_rows)
        self.image = deploy(self)
        self._listen()

    def _listen(self) -> None:
        """Connect botocore and the environments of functions to this yard, and the services to each other."""
        TRANSPORT.serve(
            self.network.send, self.network.answer_at_once, self.world.sleep, seed=self.world.seed
        )
        ENVIRONMENTS.current = self.network.environment
        LAYERS.forget_models()
        LAYERS.on_metrics = self._measured
        CLOCK.follow(self.world)
        self.ec2.on_change.append(self._watch_load)
        self.machines.on_silence = lambda host, silent: (self.ssm.cut_off if silent else self.ssm.reconnect)(
            host
        )
        self.gateway.after["ec2.create_tags"] = self._tags_changed

    # ---------------------------------------------------------------------------------------- who calls whom

    def _invoke(self, function: str, payload: Any, on_done: Callable[[Any], None]) -> object:
        return self.functions.call(function, payload, on_done)

    def _deliver(self, delivery: Delivery) -> object:
        self.functions.event(delivery.target.arn, delivery.payload)
        return None

    def _start_by_rule(self, caller: Caller, request: Request) -> object:
        return self.gateway.answer(caller, "stepfunctions", "start_execution", request)

    def _object_created(
        self, detail_type: str, bucket: str, key: str, version: str, size: int, etag: str
    ) -> None:
        described = {"key": key, "size": size, "etag": etag, "version-id": version}
        detail = {"version": "0", "bucket": {"name": bucket}, "object": described, "reason": "PutObject"}
        detail["requester"] = ACCOUNT
        self.events.emit("aws.s3", detail_type, detail, [f"arn:{PARTITION}:s3:::{bucket}"])
        for look in self.on_object:
            look(key)
        folder, _, run = key.removesuffix("/order.json").partition("/")
        if folder == "runs" and key.endswith("/order.json"):
            self.machines.ordered(run)

    def _tags_changed(self, request: Mapping[str, Any]) -> None:
        for each in request["Resources"]:
            self.machines.look(each)

    def _has_agent(self, host: Host) -> bool:
        """Return True for the yard's own images: all of them contain the agent."""
        image = self.ec2.images.get(host.metadata.image)
        return image is None or image.owner == ACCOUNT

    def _host(self, instance_id: str) -> Host:
        return SimulatedHost(self, self.ec2.instance(instance_id))

    def _watch_load(self, instance: Instance) -> None:
        """Let CloudWatch compute the load of a host when it is queried, instead of storing a point each minute."""

        def load(at: datetime) -> float | None:
            return self.machines.gpu_minutes(instance.id, at, at + MINUTE).get(at)

        def use(at: datetime) -> float | None:
            return self.in_use(at) if Tag.DEV in instance.tags and load(at) is not None else None

        if instance.state == "running":
            self.cloudwatch.follow(*USE_METRIC, instance.id, use)
            self.cloudwatch.follow(*CPU_METRIC, instance.id, lambda _: AGENTS_PERCENT)
            if instance.type[0] in "gp":
                self.cloudwatch.follow(*GPU_METRIC, instance.id, load)

    def _measured(self, values: Mapping[str, float], dimensions: Mapping[str, str]) -> None:
        self.cloudwatch.record(NAMESPACE, values, {**dimensions, "service": self.name})

    def use_prices_of(self, region: str) -> None:
        """Use the prices of a region, as if the yard were there. Zones and ARNs keep their names."""
        self.ec2.catalogue.settings = replace(self.ec2.catalogue.settings, region=region)
        self.network.move_to(region)

    def after(self, seconds: float, do: Callable[[], object], what: str) -> None:
        self.world.after(seconds, do, what=what)

    # ---------------------------------------------------------------------------------------------- what one can see

    @property
    def name(self) -> str:
        return next(iter(self.template.functions.values())).environment["YARD"]

    @property
    def bucket(self) -> str:
        return self.template.bucket.name

    @functools.cached_property
    def recipe(self) -> bytes:
        return (assembly.ROOT / "examples" / "images" / "gpu.yaml").read_bytes()

    def runs(self) -> list[Execution]:
        return list(self.stepfunctions.executions.values())

    def runs_of(self, job: str) -> list[Execution]:
        """Return the runs of the uploaded job file of that name."""
        return [each for each in self.runs() if each.name.rpartition("-")[0] == job]

    def all_over(self) -> bool:
        return not any(each.status is Status.RUNNING for each in self.stepfunctions.executions.values())

    def is_pending(self) -> bool:
        """Return True while events or invocations are pending, even delayed ones, or while a run that is over has no
        end or no notification in the ledger."""
        under_way = bool(self.functions.running) or self.events.under_way > 0 or self.functions.waiting > 0
        under_way |= self.scheduler.under_way > 0
        over = {each.name for each in self.runs() if each.status is not Status.RUNNING}
        return under_way or any(row["sk"] in over for row in self.rows("open"))

    def run_row(self, run: str) -> Row | None:
        return self.dynamodb.row(self.template.table.name, f"run#{run}", "run")

    def rows(self, pk: str) -> list[Row]:
        """Return the rows of a partition of the ledger."""
        return list(self.dynamodb.rows(self.template.table.name, pk))

    def time_since_end(self) -> timedelta:
        """Return the time since the last execution ended; zero while one runs."""
        return min(self.world.now - (each.stopped or self.world.now) for each in self.runs())

    def host_rows(self) -> list[Row]:
        """Return the ledger's rows of all hosts of all runs."""
        rows = self.dynamodb.rows(self.template.table.name)
        return [row for row in rows if row["sk"].startswith("host#")]

    def read_json(self, key: str) -> Any:
        body = self.s3.body(self.bucket, key)
        return None if body is None else json.loads(body)

    def summary(self, run: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.read_json(keys.summary(run))
        return found

    def versions(self, key: str) -> list[Version]:
        """Return every version of the object, the oldest first."""
        return [each for each in self.s3.versions(self.bucket, key) if each.body is not None]

    def clusters(self, run: str) -> dict[int, Cluster]:
        """Return the cluster.json files by attempt."""
        found = self.s3.keys(self.bucket, keys.attempts(run))
        texts = (self.s3.body(self.bucket, key) for key in found if key.endswith("/cluster.json"))
        written = [cluster.read(text) for text in texts if text]
        return {each.attempt: each for each in written}

    def confirmed_steps(self, run: str) -> set[int]:
        """Return every step whose checkpoint latest.json has ever named."""
        versions = self.versions(keys.latest_checkpoint(run))
        return {int(json.loads(each.body or b"")["step"]) for each in versions}

    def hours(self, run: str) -> tuple[float, int]:
        """Return the seconds and the number of the run's hosts, as EC2 bills them."""
        instances = self.ec2.find_tagged(Tag.RUN, run)
        return self.ec2.bill(Tag.RUN, run).hours * 3600, len(instances)

    def ended_at(self, instance: Instance) -> datetime:
        """Return when the run of a host, or its time in the warm pool, ended. Now if it has not ended; the launch
        without a run."""
        run = instance.tags.get(Tag.RUN)
        runs = [each for each in self.runs() if each.name == run]
        if not runs:
            return instance.created
        over, warm = runs[-1].stopped or self.world.now, warm_until(instance.tags)
        return max(over, warm) if warm else over
