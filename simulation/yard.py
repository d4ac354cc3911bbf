"""A yard deployed into a simulated account: everything of its templates, in one world."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from greenlet import GreenletExit

from lambdas.aws.clients import THROTTLED
from lambdas.core.edges.events import OF_PEOPLE
from simulation.aws.cloudwatch import CloudWatch
from simulation.aws.door.api import ACCOUNT, PARTITION, REGION, Caller, ServiceError
from simulation.aws.door.botocore_door import DOOR
from simulation.aws.door.gateway import Broken, Fate, Gateway, Service, Unreachable
from simulation.aws.dynamodb import DynamoDb
from simulation.aws.dynamodb.writes import CONFLICT, cancelled
from simulation.aws.ec2 import Ec2, Instance, ServiceQuotas
from simulation.aws.eventbridge import Delivery, EventBridge
from simulation.aws.functions import ENVIRONMENTS, Functions, Invocation
from simulation.aws.iam import Iam
from simulation.aws.notices import Notices
from simulation.aws.pricing import Pricing
from simulation.aws.s3 import S3
from simulation.aws.s3.buckets import Version
from simulation.aws.ssm import Ssm
from simulation.aws.stepfunctions import Execution, Status, StepFunctions
from simulation.aws.sts import Sts
from simulation.faults import ONE_AFTER_ANOTHER, PERSON, READS, Fault, Kind, Passed, Plan
from simulation.hosts.machines import Machines
from simulation.hosts.surroundings import CommandEnd, Host
from simulation.template import YardTemplate
from simulation.world.clock import CLOCK
from simulation.world.world import World
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

ROOT = Caller("somebody", "root")
REQUEST_SECONDS = (0.008, 0.06)
"""What a request takes in AWS's own network."""
SLOW_SECONDS = 45.0
MINUTE = timedelta(minutes=1)
GPU_METRIC = ("Trainyard", "nvidia_smi_utilization_gpu")
CPU_METRIC = ("AWS/EC2", "CPUUtilization")
USE_METRIC = ("Trainyard", "InUse")
AGENTS_PERCENT = 0.1
"""What agents alone use of a host's processors: no world computes on these."""
ROOT_FOLDER = Path(__file__).parents[1]


class Yard:
    """`plan` says what goes wrong."""

    takes_short_way = True
    """Requests that nothing happens to never become HTTP."""

    def __init__(self, world: World, template: YardTemplate, plan: Plan | None = None) -> None:
        self.world, self.template, self.plan = world, template, plan or Plan()
        self.iam = _iam(template)
        self.functions = Functions(world, template.functions)
        self.events = EventBridge(
            world, template.rules, self._deliver, self._start_by_rule, buses=[template.bus.name]
        )
        self.stepfunctions = StepFunctions(world, self._invoke, self.events.emit, iam=self.iam)
        self.machines = Machines(world, self._host, puts_metrics=False, has_agent=self._has_agent)
        self.ec2 = Ec2(world, self.events.emit, _Bridge(self))
        self.ssm = Ssm(world, self.ec2, self.events.emit)
        self.s3 = S3(world, self._object_created, self.iam.may)
        self.dynamodb = DynamoDb(world)
        self.cloudwatch = CloudWatch(world)
        self.notices = Notices(world)
        self.sts = Sts(world, self.iam)
        services: dict[str, Service] = {
            "ec2": self.ec2,
            "ssm": self.ssm,
            "s3": self.s3,
            "dynamodb": self.dynamodb,
            "cloudwatch": self.cloudwatch,
            "sns": self.notices,
            "sts": self.sts,
            "service-quotas": ServiceQuotas(self.ec2.pools),
            "pricing": Pricing(self.ec2.catalogue.facts),
            "stepfunctions": self.stepfunctions,
            "events": self.events,
            "lambda": self.functions,
        }
        self.gateway = Gateway(world, services, self.iam)
        self.on_object: list[Callable[[str], None]] = []
        """Called with the key of every object that is written."""
        self.asked_to_stop: set[str] = set()
        """Runs that somebody has asked to stop, in vain or not."""
        self.in_use: Callable[[datetime], float | None] = lambda at: 0.0
        """What agents of dev hosts tell of that minute: 0 nobody, 1 kernels, 2 terminals."""
        self._chance = world.chance("network")
        self._environments = {
            name: {**facts.environment, "AWS_REGION": REGION, "AWS_LAMBDA_FUNCTION_NAME": name}
            for name, facts in template.functions.items()
        }
        """Lambda adds its own to what the template says."""
        self._alike: dict[tuple[str, str], dict[int, int]] = {}
        """Invocations that have asked the same, each with the number of those before it."""
        self._uploaded: tuple[str, bytes] | None = None
        self._refused: ServiceError | None = None
        """What AWS has said to the request that goes the long way next: it is not asked twice."""
        self._deploy()
        self._listen()

    # ------------------------------------------------------------------------------------------------------- deploying

    def _deploy(self) -> None:
        template = self.template
        for machine in template.machines.values():
            self.stepfunctions.create(machine)
        for each in template.launch_templates.values():
            self.ec2.add_template(each.id, each.name, each.data)
        for subnet in template.subnets.values():
            self.ec2.add_subnet(subnet.id, subnet.zone, cidr=subnet.cidr, vpc=subnet.vpc)
        for profile, role in template.instance_profiles.items():
            self.ec2.add_profile(profile, role)
        for document in template.documents.values():
            if document.kind == "Command":  # what people open sessions by is theirs alone
                self.ssm.add_document(document.name, document.content)
        self.ec2.add_base_images()
        self.ec2.may = self.iam.may
        self.s3.create_bucket(template.bucket.name)
        self.dynamodb.create_table(template.table.name)
        self.notices.create_topic(template.topic.arn)
        for name, value in template.parameters.items():
            self.ssm.publish(name, value)
        for image_id, facts in self.ec2.catalogue.facts.images.items():
            if facts.parameter:
                self.ssm.publish(facts.parameter, image_id)
        self._publish_software()
        self._bake_at_once()
        self.events.begin_schedules(
            {rule.name: 30.0 for rule in template.rules if rule.schedule == "rate(1 minute)"}
            | {rule.name: 86_000.0 for rule in template.rules if rule.schedule == "rate(1 day)"}
        )

    def _publish_software(self) -> None:
        """What `cdk deploy` has put into its bucket of assets for bakes to fetch."""
        for facts in self.template.functions.values():
            if "SOFTWARE_URI" in facts.environment:
                bucket, _, key = facts.environment["SOFTWARE_URI"].removeprefix("s3://").partition("/")
                self.s3.create_bucket(bucket)
                self.s3.write(bucket, key, b"software")

    def _bake_at_once(self) -> None:
        """The image that hosts start from, as a bake leaves it."""
        self.image = self.old_image("ami-0123456789abcdef0", "gpu", days=0)
        for name in self.template.parameters:
            if name.endswith("/image"):
                self.ssm.publish(name, self.image)

    def _listen(self) -> None:
        """From now on botocore asks here, and what happens anywhere passes the plan."""
        DOOR.serve(self._send, self._answer_at_once, self.world.sleep, seed=self.world.seed)
        ENVIRONMENTS.current = self._environment
        CLOCK.follow(self.world)
        self.ec2.on_change.append(self._watch_load)
        self.machines.on_silence = lambda host, silent: (self.ssm.cut_off if silent else self.ssm.back)(host)
        self.gateway.after["ec2.create_tags"] = self._tags_changed

    def _environment(self) -> Mapping[str, str]:
        invocation = self.functions.current()
        if invocation is None:
            raise GreenletExit
        return self._environments[invocation.function.name]

    # ------------------------------------------------------------------------------------------- what functions ask for

    def _send(self, service: str, operation: str, request: Mapping[str, Any], tries: int) -> dict[str, Any]:
        """One HTTP request of the function that runs now."""
        invocation = self._current()
        if tries == 0:
            invocation.requests += 1
            invocation.asks.append(f"{service}.{operation}")
        place = _place(invocation, invocation.requests, service, operation)
        found = self._struck_at(place, invocation) if self._is_new(invocation, place) else ()
        fates = [Fate(fault.what) for fault in found]
        caller = Caller(invocation.name, invocation.function.role)
        if self._refused:
            refused, self._refused = self._refused, None
            raise refused
        for fate in fates:
            self._strike_before(fate, invocation, tries, operation)
        self.world.sleep(self._chance.uniform(*REQUEST_SECONDS))
        try:
            answer = self.gateway.answer(caller, service, operation, request)
        except ServiceError:
            self._strike_after(fates, invocation, tries)  # a refusal may not arrive either
            raise
        self._strike_after(fates, invocation, tries)
        return answer

    def _answer_at_once(
        self, service: str, operation: str, request: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The same, unless something is in its way that HTTP, or botocore's retries, would show."""
        invocation = self._current()
        place = _place(invocation, invocation.requests + 1, service, operation)
        if not self.takes_short_way or (
            self._is_new(invocation, place) and self._struck_at(place, invocation)
        ):
            return None
        invocation.requests += 1
        invocation.asks.append(f"{service}.{operation}")
        self.world.sleep(self._chance.uniform(*REQUEST_SECONDS))
        caller = Caller(invocation.name, invocation.function.role)
        try:
            return self.gateway.answer(caller, service, operation, request)
        except ServiceError as refused:
            if refused.status < 500 and refused.code not in THROTTLED:
                raise
            self._refused = refused
        invocation.requests -= 1
        invocation.asks.pop()
        return None

    def _struck_at(self, place: str, invocation: Invocation) -> Sequence[Fault]:
        return self.plan.at(Kind.REQUEST, place, self.passed(invocation, place.partition("/")[2]))

    def passed(self, invocation: Invocation, request: str = "") -> Passed:
        """What a place in it is."""
        about = f"{invocation.function.name} {invocation.heard or invocation.about} {request}"
        return Passed(invocation.during, about, invocation.asks)

    def _is_new(self, invocation: Invocation, place: str) -> bool:
        """Whether other invocations about the same have not asked the same often enough.

        A request that only looks is the same wherever it stands among theirs; one that does something, at its place.
        """
        request = place.partition("/")[2]
        operation = request.partition(".")[2]
        made_by = self._alike.setdefault(
            (invocation.about, operation if operation.startswith(READS) else request), {}
        )
        return made_by.setdefault(invocation.number, len(made_by)) < ONE_AFTER_ANOTHER

    def _current(self) -> Invocation:
        invocation = self.functions.current()
        if invocation is None:
            raise GreenletExit  # its process is gone: whatever runs on of it reaches nobody
        return invocation

    def _strike_before(self, fate: Fate, invocation: Invocation, tries: int, operation: str) -> None:
        if tries == 0:
            self.world.note(invocation.name, f"meets a fault: {fate}", operation=operation)
        match fate:
            case Fate.THROTTLED if tries == 0:
                raise ServiceError("ThrottlingException", "Rate exceeded")
            case Fate.THROTTLED_FOR_LONG:
                raise ServiceError("ThrottlingException", "Rate exceeded")
            case Fate.SERVER_ERROR if tries == 0:
                raise ServiceError("InternalError", "An internal error has occurred", status=500)
            case Fate.SERVER_ERRORS:
                raise ServiceError("InternalError", "An internal error has occurred", status=500)
            case Fate.LOST_BEFORE if tries == 0:
                raise Broken
            case Fate.UNREACHABLE:
                raise Unreachable
            case Fate.DENIED:
                raise ServiceError(
                    "AccessDeniedException",
                    f"User: {invocation.function.role} is not authorized to perform: {operation}",
                    status=403,
                )
            case Fate.CONFLICT if tries == 0:
                raise cancelled([CONFLICT])
            case Fate.CONFLICTS if tries < 20:
                raise cancelled([CONFLICT])
            case Fate.ROWS_DELETED if tries == 0:
                for execution in self.runs():
                    self.delete_rows(execution.name)
            case Fate.SLOW if tries == 0:
                self.world.sleep(SLOW_SECONDS)
            case Fate.KILLED_BEFORE:
                self.functions.kill(invocation)
                raise GreenletExit

    def _strike_after(self, fates: Sequence[Fate], invocation: Invocation, tries: int) -> None:
        if Fate.LOST_AFTER in fates and tries == 0:
            raise Broken
        if Fate.KILLED_AFTER in fates:
            self.functions.kill(invocation)
            raise GreenletExit

    # ---------------------------------------------------------------------------------------- who calls whom

    def _invoke(self, function: str, payload: Any, on_done: Callable[[Any], None]) -> object:
        return self.functions.call(function, payload, on_done)

    def _deliver(self, delivery: Delivery) -> object:
        self.functions.event(delivery.target.arn, delivery.payload)
        return None

    def _start_by_rule(self, caller: Caller, request: dict[str, Any]) -> object:
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
        """It comes with every image of the yard's, whoever launches it."""
        image = self.ec2.images.get(host.metadata.image)
        return image is None or image.owner == ACCOUNT

    def _host(self, instance_id: str) -> Host:
        return _SimulatedHost(self, self.ec2.instance(instance_id))

    def _watch_load(self, instance: Instance) -> None:
        """CloudWatch reads a host's load when it is asked, as if the host had put it each minute."""

        def load(at: datetime) -> float | None:
            return self.machines.gpu_minutes(instance.id, at, at + MINUTE).get(at)

        def use(at: datetime) -> float | None:
            return self.in_use(at) if Tag.DEV in instance.tags and load(at) is not None else None

        if instance.state == "running":
            self.cloudwatch.follow(*USE_METRIC, instance.id, use)
            self.cloudwatch.follow(*CPU_METRIC, instance.id, lambda _: AGENTS_PERCENT)
            if instance.type[0] in "gp":
                self.cloudwatch.follow(*GPU_METRIC, instance.id, load)

    # ------------------------------------------------------------------------------------------------- what people do

    def upload(self, key: str, body: bytes) -> None:
        self._uploaded = (key, body)
        self.ask("s3", "put_object", Bucket=self.bucket, Key=key, Body=body)

    def upload_again(self) -> None:
        """What was uploaded last, if anything."""
        if self._uploaded:
            self.upload(*self._uploaded)

    def start(self, workflow: str, name: str, given: Mapping[str, Any]) -> str:
        machine = self.template.machine(workflow)
        started = self.ask(
            "stepfunctions",
            "start_execution",
            stateMachineArn=machine.arn,
            name=name,
            input=json.dumps(given),
        )
        return str(started["executionArn"])

    def delete_rows(self, run: str) -> None:
        table = self.template.table.name
        for pk in (f"run#{run}", f"timeline#{run}"):
            for row in list(self.dynamodb.rows(table, pk)):
                self.dynamodb.lose(table, pk, row["sk"])

    def stop(self, execution: Execution) -> None:
        """One that is over by itself nobody stops: AWS would refuse."""
        if execution.status in (Status.RUNNING, Status.ABORTED):
            self.ask("stepfunctions", "stop_execution", executionArn=execution.arn)

    def ask_to_stop(self, run: str) -> None:
        """So that it saves."""
        self.asked_to_stop.add(run)
        bus, source = self.template.bus.name, f"{OF_PEOPLE}{PERSON}"
        entry = {
            "EventBusName": bus,
            "Source": source,
            "DetailType": "stop",
            "Detail": json.dumps({"run": run}),
        }
        self.ask("events", "put_events", Entries=[entry])

    def ask(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """As the person whose account it is."""
        return self.gateway.answer(ROOT, service, operation, request)

    def asks_prices_of(self, region: str) -> None:
        """As if the yard were there: AWS asks for everything what it costs there. Zones and ARNs keep their names."""
        self.ec2.catalogue.facts = replace(self.ec2.catalogue.facts, region=region)
        for environment in self._environments.values():
            environment["AWS_REGION"] = region

    def after(self, seconds: float, do: Callable[[], object], what: str) -> None:
        self.world.after(seconds, do, what=what)

    def launch_by_hand(self) -> None:
        """Somebody launches a host from the yard's template, of which no run knows."""
        template = next(
            each for each in self.template.launch_templates.values() if "UserData" not in each.data
        )
        subnet = next(iter(self.template.subnets))
        overrides = [{"InstanceType": "g6.xlarge", "SubnetId": subnet, "ImageId": self.image}]
        self.ask(
            "ec2",
            "create_fleet",
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template.id, "Version": "1"},
                    "Overrides": overrides,
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            OnDemandOptions={
                "SingleInstanceType": True,
                "SingleAvailabilityZone": True,
                "MinTargetCapacity": 1,
            },
        )

    def old_image(self, image_id: str, family: str, *, days: float) -> str:
        """A baked image of the yard's own of that age."""
        tags = {
            Tag.YARD: self.name,
            Tag.RUN: f"bake-{image_id[-4:]}",
            Tag.KIND: "baked",
            Tag.FAMILY: family,
            Tag.PARENT: "ami-base",
            Tag.RECIPE: "0" * 16,
            Tag.TESTS: "8 passed",
            Tag.TENSORFLOW: "2.21.0",
            Tag.DRIVER: "none",
            Tag.CUDA: "none",
            "Name": f"{family} {image_id[-4:]}",
        }
        image = self.ec2.add_image(image_id, tags["Name"], owner=ACCOUNT, gib=100, tags=tags)
        image.created = self.world.now - timedelta(days=days)
        return image_id

    # ---------------------------------------------------------------------------------------------- what one can see

    @property
    def name(self) -> str:
        return next(iter(self.template.functions.values())).environment["YARD"]

    @property
    def bucket(self) -> str:
        return self.template.bucket.name

    @functools.cached_property
    def recipe(self) -> bytes:
        return (ROOT_FOLDER / "images" / "gpu.yaml").read_bytes()

    def runs(self) -> list[Execution]:
        return list(self.stepfunctions.executions.values())

    def all_over(self) -> bool:
        return not any(each.status is Status.RUNNING for each in self.stepfunctions.executions.values())

    def is_awaited(self) -> bool:
        """Return True while events or invocations are under way, however late, or a notification is to be sent."""
        under_way = bool(self.functions.running) or self.events.under_way > 0 or self.functions.waiting > 0
        return under_way or any("ended" in (self.run_row(row["sk"]) or {}) for row in self.rows("open"))

    def run_row(self, run: str) -> dict[str, Any] | None:
        return self.dynamodb.row(self.template.table.name, f"run#{run}", "run")

    def rows(self, pk: str) -> list[dict[str, Any]]:
        """The rows of that partition of the ledger."""
        return list(self.dynamodb.rows(self.template.table.name, pk))

    def since_over(self) -> timedelta:
        """How long ago the last execution ended; nothing while one goes on."""
        return min(self.world.now - (each.stopped or self.world.now) for each in self.runs())

    def host_rows(self) -> list[dict[str, Any]]:
        """What the ledger says of all hosts of all runs, of each run's its own."""
        rows = self.dynamodb.rows(self.template.table.name)
        return [row for row in rows if row["sk"].startswith("host#")]

    def document(self, key: str) -> Any:
        body = self.s3.body(self.bucket, key)
        return None if body is None else json.loads(body)

    def summary(self, run: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.document(keys.summary(run))
        return found

    def versions(self, key: str) -> list[Version]:
        """All that were ever written, the oldest first."""
        return [each for each in self.s3.versions(self.bucket, key) if each.body is not None]

    def clusters(self, run: str) -> dict[int, dict[str, Any]]:
        """cluster.json by attempt."""
        found = self.s3.keys(self.bucket, keys.attempts(run))
        return {int(key.split("/")[3]): self.document(key) for key in found if key.endswith("/cluster.json")}

    def confirmed(self, run: str) -> set[int]:
        """Every step whose checkpoint latest.json has ever named."""
        versions = self.versions(keys.latest_checkpoint(run))
        return {int(json.loads(each.body or b"")["step"]) for each in versions}

    def hours(self, run: str) -> tuple[float, int]:
        """Seconds of all hosts of the run as EC2 has them, and how many hosts there were."""
        instances = self.ec2.tagged(Tag.RUN, run)
        return self.ec2.bill(Tag.RUN, run).hours * 3600, len(instances)

    def over_since(self, instance: Instance) -> datetime:
        """When the run of a host ended, or its time in the pool; now, while it goes on; its launch without one."""
        run = instance.tags.get(Tag.RUN)
        of_it = [each for each in self.runs() if each.name == run]
        if not of_it:
            return instance.created
        over, warm = of_it[-1].stopped or self.world.now, warm_until(instance.tags)
        return max(over, warm) if warm else over


@dataclass
class _Bridge:
    """From EC2 and Systems Manager to the machines behind instances."""

    yard: Yard

    def boot(self, instance: Instance) -> None:
        self.yard.machines.boot(instance.id)

    def stop(self, instance: Instance) -> None:
        self._go_down(instance, self.yard.machines.stop, self.yard.machines.cut_power)

    def terminate(self, instance: Instance) -> None:
        self._go_down(instance, self.yard.machines.terminate, self.yard.machines.forget)

    def _go_down(self, instance: Instance, ask: Callable[[str], None], cut: Callable[[str], None]) -> None:
        """In good order as long as EC2 lets it; then without power."""
        off = instance.off_at or self.yard.world.now
        if off > self.yard.world.now:
            ask(instance.id)
        self.yard.world.at(off, lambda: cut(instance.id), what=f"{instance.id} has no power any more")

    def reboot(self, instance: Instance) -> None:
        self.yard.machines.reboot(instance.id)

    def command(
        self, instance: Instance, command_id: str, document: str, parameters: Mapping[str, list[str]]
    ) -> None:
        def done(end: CommandEnd) -> None:
            status = "Success" if end.exit_code == 0 else "Failed"
            self.yard.ssm.done(command_id, instance.id, status, end.exit_code, end.output, error=end.errors)

        self.yard.machines.command(instance.id, command_id, document, parameters, done)


@dataclass(frozen=True)
class _Metadata:
    yard: Yard
    of: Instance

    @property
    def instance(self) -> str:
        return self.of.id

    @property
    def address(self) -> str:
        return self.of.address

    @property
    def image(self) -> str:
        return self.of.image

    @property
    def instance_type(self) -> str:
        return self.of.type

    @property
    def region(self) -> str:
        return REGION

    def tags(self) -> Mapping[str, str]:
        return self.yard.ec2.tags(self.of.id)

    def spot_notice(self) -> datetime | None:
        return self.of.reclaimed_at


@dataclass(frozen=True)
class _SimulatedHost:
    yard: Yard
    of: Instance

    @property
    def metadata(self) -> _Metadata:
        return _Metadata(self.yard, self.of)

    def aws(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        role = self.of.role
        if role is None:
            raise ServiceError("NoCredentials", "the instance has no profile")
        caller = Caller(self.of.id, role, self.of.id, vpc=self._endpoint)
        return self.yard.gateway.answer(caller, service, operation, request)

    def aws_as_run(self, access_key: str, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        caller = replace(self.yard.sts.caller(access_key), vpc=self._endpoint)
        return self.yard.gateway.answer(caller, service, operation, request)

    @property
    def _endpoint(self) -> str | None:
        return self.of.vpc if self.of.vpc in self.yard.template.s3_endpoints else None

    def register(self) -> None:
        self.yard.ssm.register(self.of.id)

    def power_off(self) -> None:
        self.yard.ec2.shut_down(self.of.id)

    def crash(self) -> None:
        self.yard.ec2.kill(self.of.id)


def _place(invocation: Invocation, request: int, service: str, operation: str) -> str:
    """Which function, its how-manieth invocation, the how-manieth request in it."""
    return f"{invocation.name}/{request} {service}.{operation}"


_IAM: dict[int, Iam] = {}
"""By template: verdicts are remembered for every world of this process."""


def _iam(template: YardTemplate) -> Iam:
    if id(template) not in _IAM:
        _IAM[id(template)] = Iam(
            {arn: role.policies for arn, role in template.roles.items()},
            trusts={arn: role.trust for arn, role in template.roles.items()},
            resources=template.resource_policies,
        )
    return _IAM[id(template)]
