"""Simulated hosts: their signals, results and actions, as the control plane sees them."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simulation.aws.endpoint.api import ServiceError
from simulation.hosts.agent.contract import OTHER_SENDERS, SIGNALS, STAGES, STORED_IN_BUCKET
from simulation.hosts.environment import CommandEnd
from simulation.hosts.faults import (
    NEVER_BOOTS,
    ClockOff,
    Dies,
    DiskFull,
    Fault,
    GangHangs,
    Hangs,
    IsCutOff,
    Late,
    MountEnds,
    NeverRegisters,
    OthersHang,
    ProgramEnds,
    SendsTwice,
    When,
    Xid,
)
from simulation.hosts.machines import Machines
from simulation.world.world import World
from tests.unit.core.builders import admitted
from trainyard.protocol import signals
from trainyard.values import serialization

RUN, BUCKET = "digits-1a2b3c4d", "yard-bucket"
WORD_OF_MOUTH = ("ready", "started", "progress", "checkpointed", "finished", "stopped", "failed")

ROOT = Path(__file__).parents[3]


@dataclass
class Instance:
    """One instance with its metadata and AWS access."""

    yard: "Yard"
    instance: str
    address: str
    instance_type: str
    known_tags: dict[str, str]
    image: str = "ami-0123456789abcdef0"
    region: str = "us-east-1"
    notice: datetime | None = None
    state: str = "running"

    @property
    def metadata(self) -> "Instance":
        return self

    def tags(self) -> Mapping[str, str]:
        return self.known_tags

    def interruption_notice(self) -> datetime | None:
        return self.notice

    def aws(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        return self.yard.answer(service, operation, request)

    def aws_as_run(self, access_key: str, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        assert access_key == "ASIARUN"
        return self.yard.answer(service, operation, request)

    def register(self) -> None:
        self.yard.registered[self.instance] = self.yard.world.now

    def power_off(self) -> None:
        self.state = "off"

    def crash(self) -> None:
        self.state = "crashed"


@dataclass
class Yard:
    """A bucket, a bus and some instances."""

    seed: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = World(self.seed)
        self.objects: dict[str, bytes] = {}
        self.events: list[dict[str, Any]] = []
        self.metrics: list[tuple[datetime, str, float]] = []
        self.calls: Counter[str] = Counter()
        self.registered: dict[str, datetime] = {}
        self.instances: dict[str, Instance] = {}
        self.ends: dict[str, CommandEnd] = {}
        self.refuses: Callable[[str, dict[str, Any]], ServiceError | None] = lambda operation, request: None
        self.machines = Machines(self.world, self.instances.__getitem__, **self.options)

    # ---- AWS

    def answer(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.calls[operation] += 1
        refusal = self.refuses(operation, request)
        if refusal:
            raise refusal
        does: Callable[[dict[str, Any]], dict[str, Any]] = getattr(self, operation)
        return does(request)

    def put_events(self, request: dict[str, Any]) -> dict[str, Any]:
        for entry in request["Entries"]:
            assert (entry["Source"][:24], entry["EventBusName"]) == ("trainyard.host/AROAHOST:", "yard-bus")
            self._hear(entry["Source"].partition("/")[2], json.loads(entry["Detail"]))
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}

    def _hear(self, sender: str, event: dict[str, Any]) -> None:
        if event["signal"] != "credentials":
            self.events.append({"time": self.world.now, **event})
            return
        until = self.world.now + timedelta(hours=1)
        given = {"AccessKeyId": "ASIARUN", "Expiration": until.isoformat(), "Run": event["run"]}
        self.objects[f"credentials/{sender}.json"] = json.dumps(given).encode()

    def get_object(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["Key"] not in self.objects:
            raise ServiceError("NoSuchKey", "The specified key does not exist.", status=404)
        return {"Body": self.objects[request["Key"]], "ETag": "e"}

    def put_object(self, request: dict[str, Any]) -> dict[str, Any]:
        self.objects[request["Key"]] = request["Body"]
        return {}

    def list_objects_v2(self, request: dict[str, Any]) -> dict[str, Any]:
        keys = sorted(key for key in self.objects if key.startswith(request["Prefix"]))
        found = [
            {
                "Key": k,
                "Size": len(self.objects[k]),
                "ETag": f'"{hashlib.md5(self.objects[k]).hexdigest()}"',
                "LastModified": self.world.now,
            }
            for k in keys
        ]
        return {"Contents": found, "IsTruncated": False}

    def delete_objects(self, request: dict[str, Any]) -> dict[str, Any]:
        for item in request["Delete"]["Objects"]:
            del self.objects[item["Key"]]
        return {}

    def put_metric_data(self, request: dict[str, Any]) -> dict[str, Any]:
        assert request["Namespace"] == "Trainyard"
        for datum in request["MetricData"]:
            if datum["MetricName"] == "nvidia_smi_utilization_gpu":
                who = datum["Dimensions"][0]["Value"]
                self.metrics.append((datum["Timestamp"], who, max(datum["Values"])))
        return {}

    # ---- what the control plane does

    def launch(
        self, count: int = 2, *, hours: float = 2, type_: str = "g6.xlarge", **tags: str
    ) -> list[Instance]:
        lease = (self.world.now + timedelta(hours=hours)).isoformat()
        of_run = {
            "trainyard:yard": "yard",
            "trainyard:bucket": BUCKET,
            "trainyard:bus": "yard-bus",
            "trainyard:role": "AROAHOST",
            "trainyard:run": RUN,
            "trainyard:attempt": "1",
            "trainyard:lease": lease,
        }
        named = {f"trainyard:{key}": value for key, value in tags.items()}
        made = []
        for _ in range(count):
            identity = self.world.new_id("i-")
            number = len(self.instances) + 4
            made.append(Instance(self, identity, f"10.0.0.{number}", type_, of_run | named))
            self.instances[identity] = made[-1]
            self.machines.boot(identity)
        return made

    def admit(self, **sections: Any) -> None:
        self.job = admitted(
            **{
                "program": {"module": "training.programs.digits", "args": {"steps": 20, "step-seconds": 1}},
                "cluster": {"strategy": "multi_worker", "workers": 2},
                "checkpoints": {"steps": 5},
                "limits": {"hours": 6},
                **sections,
            }
        )
        self.objects[f"runs/{RUN}/job.json"] = json.dumps(serialization.to_json(self.job)).encode()

    def start(
        self, hosts: list[Instance], *, attempt: int = 1, roles: list[str] | None = None, hours: float = 1
    ) -> None:
        """Write cluster.json, and order all hosts to start."""
        seats = roles or ["chief-0", *(f"worker-{n}" for n in range(1, len(hosts)))]
        latest = json.loads(self.objects.get(f"runs/{RUN}/checkpoints/latest.json", b"null"))
        document = {
            "run": RUN,
            "attempt": attempt,
            "strategy": self.job.cluster.strategy,
            "port": 2222,
            "hosts": [
                {
                    "instance": host.instance,
                    "role": seat.partition("-")[0],
                    "index": int(seat.partition("-")[2]),
                    "address": host.address,
                }
                for host, seat in zip(hosts, seats, strict=True)
            ],
            "checkpoint": latest and {"step": latest["step"], "key": latest["key"]},
            "deadline": (self.world.now + timedelta(hours=hours)).isoformat(),
        }
        self.objects[f"runs/{RUN}/attempts/{attempt}/cluster.json"] = json.dumps(document).encode()
        self.order("start", hosts, attempt)

    def order(self, word: str, hosts: list[Instance], attempt: int) -> None:
        for host in hosts:
            self.send(word, host, Run=[RUN], Attempt=[str(attempt)])

    def send(self, word: str, host: Instance, **parameters: list[str]) -> str:
        command = self.world.new_id("command-")

        def done(end: CommandEnd) -> None:
            self.ends[command] = end

        self.machines.command(host.instance, command, f"trainyard-{word}", parameters, done)
        return command

    # ---- what is seen

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + timedelta(seconds=seconds))

    def until(self, word: str, count: int = 1, *, most: float = 7200) -> list[dict[str, Any]]:
        """Run until this many signals of a kind were sent."""
        end = self.world.now + timedelta(seconds=most)
        self.world.run(end, stop=lambda: len(self.said(word)) >= count)
        found = self.said(word)
        assert len(found) >= count, f"{word} was said {len(found)} times: {self.words()}"
        return found

    def said(self, word: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["signal"] == word]

    def words(self, host: Instance | None = None) -> list[str]:
        """Return the signals without direct repetitions."""
        all_words = [e["signal"] for e in self.events if host is None or e["instance"] == host.instance]
        return [word for point, word in enumerate(all_words) if all_words[point - 1 : point] != [word]]

    def json(self, key: str) -> Any:
        return json.loads(self.objects[f"runs/{RUN}/{key}"])


def training(count: int = 2, **sections: Any) -> tuple[Yard, list[Instance]]:
    """Return a yard with a gang that was just ordered to start."""
    yard = Yard()
    yard.admit(**sections)
    hosts = yard.launch(count)
    yard.until("ready", count)
    yard.run(60)
    yard.start(hosts)
    return yard, hosts


def args(**given: Any) -> dict[str, Any]:
    return {"args": {"steps": 20, "step-seconds": 1} | {k.replace("_", "-"): v for k, v in given.items()}}


SINGLE = {"strategy": "single", "workers": 1, "chief": "coordinator"}
SERVERS = {"strategy": "parameter_server", "workers": 1, "chief": "coordinator"}
PS_ROLES = ["chief-0", "worker-0", "ps-0", "evaluator-0"]


# ---- a run without trouble


def test_a_gang_trains_and_only_the_chief_reports_saves_and_finishes() -> None:
    yard, (chief, worker) = training()
    (finished,) = yard.until("finished")
    assert yard.words(chief)[:4] == ["ready", "started", "progress", "checkpointed"]
    assert (finished["step"], finished["attempt"], finished["instance"]) == (20, 1, chief.instance)
    assert finished["accuracy"] > 0.5
    assert yard.words(worker)[:2] == ["ready", "started"]
    assert set(yard.words(worker)) == {"ready", "started"}
    assert [event["step"] for event in yard.said("checkpointed")] == [5, 10, 15, 20]


def test_a_run_leaves_what_the_contract_says_in_the_bucket() -> None:
    yard, (chief, worker) = training()
    yard.until("finished")
    yard.run(1)
    latest = yard.json("checkpoints/latest.json")
    assert latest["step"] == 20
    assert [before["step"] for before in latest["before"]] == [15, 10]
    kept = {key.split("/")[3].removesuffix(".json") for key in yard.objects if "/checkpoints/0" in key}
    assert kept == {"00000020", "00000015", "00000010"}
    assert yard.json("model/trainyard.json")["step"] == 20
    assert yard.json("metrics.json")["steps"] == 20
    assert yard.json(f"attempts/1/signals/AROAHOST:{chief.instance}.json")["signal"] == "finished"
    logs = yard.objects[f"runs/{RUN}/attempts/1/logs/worker-1/00000001.log"].decode()
    assert f"worker-1 {worker.instance} | [trainyard] attempt 1 on" in logs


def test_a_host_says_ready_every_15_seconds_until_it_is_started() -> None:
    yard = Yard()
    yard.admit()
    yard.launch(1)
    first, second, third = yard.until("ready", 3)[:3]
    assert second["time"] - first["time"] == third["time"] - second["time"] == timedelta(seconds=15)
    assert first["address"] == "10.0.0.4"
    assert first["boot_seconds"] > 0


def test_hosts_that_finished_get_ready_for_the_next_attempt() -> None:
    yard, (chief, worker) = training()
    yard.until("finished")
    yard.run(60)
    for host in (chief, worker):
        assert yard.words(host)[-1] == "ready"
    assert {event["attempt"] for event in yard.said("ready")[-2:]} == {2}


def test_progress_comes_at_most_every_ten_seconds() -> None:
    yard, _ = training(program=args(steps=100, step_seconds=0.5))
    yard.until("finished")
    said = [event["time"] for event in yard.said("progress")]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(said)]
    assert all(gap >= 9.9 for gap in gaps)
    assert len(said) >= 5


def test_a_silent_program_is_alive_once_a_minute() -> None:
    yard, _ = training(program=args(steps=300, silent=True))
    yard.until("progress", 3)
    gaps = [b["time"] - a["time"] for a, b in pairwise(yard.said("progress"))]
    assert all(timedelta(seconds=59) < gap < timedelta(seconds=62) for gap in gaps)
    assert "step" not in yard.said("progress")[0]


def test_equal_seeds_give_equal_traces() -> None:
    def result(seed: int) -> str:
        yard = Yard(seed)
        yard.admit()
        hosts = yard.launch(2)
        yard.until("ready", 2)
        yard.run(40)
        yard.start(hosts)
        yard.until("finished")
        return hashlib.sha256(repr(yard.world.trace).encode()).hexdigest()

    assert result(7) == result(7)
    assert result(7) != result(8)


def test_a_gang_of_two_costs_few_calls() -> None:
    yard, _ = training()
    yard.until("finished")
    assert sum(yard.calls.values()) < 100, yard.calls


# ---- orders


def test_a_stop_order_makes_all_save_and_leave_at_the_same_step() -> None:
    yard, hosts = training(program=args(steps=1000, step_seconds=10))  # all programs react within a step
    yard.until("progress", 2)
    yard.order("stop", hosts, 1)
    stopped = yard.until("stopped", 2)
    yard.run(5)
    assert {event["why"] for event in stopped} == {"asked"}
    saved = yard.json("checkpoints/latest.json")["step"]
    assert stopped[-1]["step"] == saved or stopped[0]["step"] == saved
    assert yard.words(hosts[0])[-1] == "ready"
    assert {event["attempt"] for event in yard.said("ready")[-2:]} == {2}


def test_a_waiting_host_takes_a_stop_order_as_the_end_of_that_attempt() -> None:
    yard = Yard()
    yard.admit()
    (host,) = yard.launch(1)
    yard.until("ready")
    yard.run(60)
    yard.order("stop", [host], 1)
    yard.run(5)
    assert yard.said("ready")[-1]["attempt"] == 2


def test_a_waiting_host_takes_a_start_order_of_a_later_attempt() -> None:
    yard = Yard()
    yard.admit(cluster=SINGLE)
    (host,) = yard.launch(1)
    yard.until("ready")
    yard.run(60)
    yard.start([host], attempt=3)
    assert yard.until("started")[0]["attempt"] == 3


def test_a_restart_continues_from_the_checkpoint_in_cluster_json() -> None:
    yard, hosts = training(program=args(steps=60))
    yard.until("checkpointed", 2)
    yard.order("stop", hosts, 1)
    yard.until("stopped", 2)
    yard.run(10)
    saved = yard.json("checkpoints/latest.json")["step"]
    yard.start(hosts, attempt=2)
    yard.until("finished")
    second = [event for event in yard.said("progress") if event["attempt"] == 2]
    assert second[0]["resumed"]["step"] == saved
    assert min(event["step"] for event in second) > saved
    assert yard.said("finished")[0]["step"] == 60


def test_at_the_deadline_a_gang_saves_and_leaves() -> None:
    yard = Yard()
    yard.admit(program=args(steps=10000))
    hosts = yard.launch(2)
    yard.until("ready", 2)
    yard.run(60)
    yard.start(hosts, hours=0.1)
    assert {event["why"] for event in yard.until("stopped", 2)} == {"limit"}


def test_an_order_to_a_host_without_an_agent_fails() -> None:
    yard = Yard()
    yard.admit()
    (host,) = yard.launch(1, kind="dev-host")
    yard.run(120)
    command = yard.send("start", host, Run=[RUN], Attempt=["1"])
    yard.run(30)
    assert yard.ends[command].exit_code == 69
    assert not yard.events


# ---- hosts that go


def test_the_gang_of_an_interrupted_host_saves_once_the_others_are_asked_too() -> None:
    yard, (chief, worker) = training(program=args(steps=1000))
    yard.until("progress", 2)
    worker.notice = yard.world.now + timedelta(seconds=120)
    yard.machines.look(worker.instance)
    stopped = yard.until("stopped", 2, most=60)
    whys = {event["instance"]: event["why"] for event in stopped}
    assert whys == {worker.instance: "interrupted", chief.instance: "peer"}
    yard.run(60)
    assert yard.words(worker)[-1] == "stopped"
    assert yard.words(chief)[-1] == "ready"
    assert yard.json("checkpoints/latest.json")["step"] >= 10


def test_a_waiting_host_that_is_taken_back_says_so() -> None:
    yard = Yard()
    yard.admit()
    (host,) = yard.launch(1)
    yard.until("ready")
    host.notice = yard.world.now + timedelta(seconds=120)
    yard.machines.look(host.instance)
    assert yard.until("stopped", most=6)[0]["why"] == "interrupted"


def test_a_host_that_is_terminated_saves_while_it_shuts_down() -> None:
    yard, (host,) = training(1, cluster=SINGLE, program=args(steps=1000))
    yard.until("progress", 2)
    down: list[datetime] = []
    yard.machines.terminate(host.instance, lambda: down.append(yard.world.now))
    yard.run(120)
    assert yard.said("stopped")[0]["why"] == "interrupted"
    assert yard.json("checkpoints/latest.json")["step"] > 0
    assert down


def test_a_host_powers_itself_off_after_its_lease_and_says_why() -> None:
    yard = Yard()
    yard.admit()
    (host,) = yard.launch(1, hours=0.5)
    (failed,) = yard.until("failed")
    assert failed["kind"] == "host"
    assert "this host has received no order" in failed["reason"]
    yard.run(150)
    assert host.state == "off"


def test_a_hold_makes_a_lease_longer() -> None:
    yard = Yard()
    yard.admit()
    (host,) = yard.launch(1, hours=0.5, kind="dev-host")
    yard.run(60)
    host.known_tags["trainyard:hold"] = (yard.world.now + timedelta(hours=1)).isoformat()
    yard.machines.look(host.instance)
    yard.run(3000)
    assert host.state == "running"
    yard.run(1200)
    assert host.state == "off"


def test_a_user_on_a_host_holds_it() -> None:
    yard = Yard()
    yard.admit()
    (host,) = yard.launch(1, kind="dev-host")
    yard.run(60)
    yard.machines.hold(host.instance, yard.world.now + timedelta(hours=2))
    yard.run(1)
    assert yard.said("hold")[0]["until"].endswith("Z")


def test_a_host_that_may_not_put_events_leaves_its_last_words_and_powers_off() -> None:
    yard = Yard()
    yard.admit()
    yard.refuses = lambda operation, request: (
        ServiceError("AccessDeniedException", "no") if operation == "put_events" else None
    )
    (host,) = yard.launch(1)
    yard.run(200)
    words = yard.json(f"attempts/1/final-reports/AROAHOST:{host.instance}.json")
    assert (words["signal"], words["unsaid"], words["final"]) == ("failed", "credentials", True)
    assert host.state == "off"


def test_temporary_errors_are_retried() -> None:
    yard = Yard()
    yard.admit()
    left = {"put_events": 8, "get_object": 3}

    def refuses(operation: str, request: dict[str, Any]) -> ServiceError | None:
        left[operation] = left.get(operation, 0) - 1
        return ServiceError("InternalFailure", "try again", status=500) if left[operation] >= 0 else None

    yard.refuses = refuses
    yard.launch(1)
    assert yard.until("ready")
    assert not yard.said("failed")


def test_a_missing_object_is_final_and_a_missing_permission_names_itself() -> None:
    yard = Yard()
    yard.launch(1)
    (failed,) = yard.until("failed")
    assert failed["final"]
    assert f"s3://{BUCKET}/runs/{RUN}/job.json does not exist" in failed["reason"]


# ---- programs


def test_a_program_that_ends_by_itself_is_the_programs_failure_with_its_tail() -> None:
    yard, _ = training(program=args(error_at=7))
    failed = yard.until("failed", 2)
    assert {event["kind"] for event in failed} == {"program"}
    assert failed[0]["exit_code"] == 1
    assert "ValueError: a fault of the program at step 7" in failed[0]["tail"]


def test_one_failing_program_makes_its_peers_leave() -> None:
    yard, (chief, worker) = training(program=args(error_at=7, error_on="worker-1"))
    (failed,) = yard.until("failed")
    (stopped,) = yard.until("stopped")
    assert (failed["instance"], stopped["instance"], stopped["why"]) == (
        worker.instance,
        chief.instance,
        "peer",
    )


def test_the_chiefs_agent_stops_a_hanging_program_and_keeps_sending_signs_of_life() -> None:
    yard, _ = training(program=args(hang_at=12))
    began = yard.world.now
    (stopped,) = yard.until("stopped")
    assert stopped["why"] == "hangs"
    assert timedelta(minutes=12) < stopped["time"] - began < timedelta(minutes=15)
    beats = [event["time"] for event in yard.said("progress")]
    assert max(after - before for before, after in pairwise(beats)) <= timedelta(seconds=61)


SLOW = [
    # text and action, about an hour in total
    ("a step in ten minutes", {"steps": 5, "step_seconds": 600}),
    ("the same in silence, with its processor", {"steps": 5, "step_seconds": 600, "silent": True}),
    (
        "in silence, while its chief waits for what the others compute",
        {"steps": 3, "step_seconds": 1200, "silent": True, "delegates": True},
    ),
    ("a long export", {"steps": 5, "export_seconds": 3000}),
]


@pytest.mark.parametrize("given", [row[1] for row in SLOW], ids=[row[0] for row in SLOW])
def test_a_slow_program_does_not_hang(given: dict[str, Any]) -> None:
    yard, _ = training(program=args(**given))
    (finished,) = yard.until("finished")
    assert {event["why"] for event in yard.said("stopped")} <= {"limit"}, "of a worker at the cap"
    assert finished["time"] - yard.said("started")[0]["time"] > timedelta(minutes=48)


@pytest.mark.parametrize("given", [{"silent": True}, {"silent": True, "delegates": True}])
def test_a_silent_program_that_only_polls_hangs(given: dict[str, Any]) -> None:
    yard, _ = training(program=args(hang_at=3, **given))
    began = yard.world.now
    (stopped,) = yard.until("stopped")
    assert (stopped["why"], stopped["time"] - began < timedelta(minutes=18)) == ("hangs", True)


def test_a_program_without_a_handler_saves_once_more_before_it_leaves() -> None:
    yard, hosts = training(
        program=args(steps=500, handler=False), checkpoints={"steps": 20, "seconds": 1e6, "keep": 3}
    )
    yard.until("checkpointed")
    yard.run(5)
    yard.order("stop", hosts, 1)
    yard.until("stopped", 2)
    steps = [event["step"] for event in yard.said("checkpointed")]
    assert steps == [20, 40], "SIGTERM came when the second was taken"
    assert {event["why"] for event in yard.said("stopped")} <= {"asked", "killed", "peer"}


def test_a_program_that_leaves_no_model_has_failed_where_one_is_expected() -> None:
    program = args(lacks="model") | {"expect": ["model"]}
    yard, _ = training(1, cluster=SINGLE, program=program)
    (failed,) = yard.until("failed")
    assert failed["kind"] == "program"
    assert "left no model" in failed["reason"]


def test_a_cluster_that_does_not_form_leaves_in_two_minutes() -> None:
    yard = Yard()
    yard.admit()
    chief, worker = yard.launch(2)
    yard.machines.at("started", worker.instance, Hangs(), when="before")
    yard.until("ready", 2)
    yard.run(60)
    yard.start([chief, worker])
    (stopped,) = yard.until("stopped")
    assert (stopped["instance"], stopped["why"]) == (chief.instance, "peer")
    assert timedelta(seconds=95) < stopped["time"] - yard.said("started")[0]["time"] < timedelta(seconds=120)


# ---- parameter servers


def served() -> tuple[Yard, list[Instance]]:
    yard = Yard()
    yard.admit(cluster=SERVERS, program=args(steps=30))
    hosts = yard.launch(4)
    yard.until("ready", 4)
    yard.run(60)
    yard.start(hosts, roles=PS_ROLES)
    return yard, hosts


def test_with_parameter_servers_only_the_chief_reports_the_end() -> None:
    yard, hosts = served()
    yard.until("finished")
    yard.run(60)
    assert [yard.words(host)[-1] for host in hosts] == ["ready"] * 4
    assert [event["instance"] for event in yard.said("finished")] == [hosts[0].instance]
    assert not yard.said("stopped")


def test_a_chief_without_its_worker_saves_and_without_its_server_does_not() -> None:
    last = {}
    for lost in (1, 2):
        yard, hosts = served()
        yard.until("checkpointed", 2)
        yard.run(2.5)
        yard.machines.machine(hosts[lost].instance).die()
        stopped = yard.until("stopped", 2, most=30)
        assert {event["why"] for event in stopped} == {"peer"}
        assert hosts[lost].state == "crashed"
        last[lost] = yard.json("checkpoints/latest.json")["step"]
    assert last[1] % 5 != 0 or last[1] > last[2]
    assert last[2] % 5 == 0


# ---- checkpoints


def test_a_damaged_checkpoint_is_given_up_for_the_one_before_it() -> None:
    yard, (host,) = training(1, cluster=SINGLE, program=args(steps=60))
    yard.until("checkpointed", 2)
    yard.order("stop", [host], 1)
    yard.until("stopped")
    latest = yard.json("checkpoints/latest.json")
    yard.objects[f"{latest['key']}{latest['step']:08d}/variables.data-00000-of-00001"] = b"x"
    yard.machines.machine(host.instance).disk.checkpoints.clear()
    yard.machines.machine(host.instance).disk.restores.clear()
    yard.start([host], attempt=2)
    second = yard.until("started", 2)[1]
    assert f"of step {latest['before'][0]['step']}, is restored instead" in second["instead"]
    assert yard.json("checkpoints/latest.json")["step"] == latest["before"][0]["step"]


# ---- faults at a word


@pytest.mark.parametrize("word", WORD_OF_MOUTH)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fault", [Dies(), Hangs(), IsCutOff()])
def test_a_host_can_fall_silent_at_each_word(word: str, when: When, fault: Fault) -> None:
    """The host sends no signal after this one."""
    yard = Yard()
    error = {"error_at": 7} if word == "failed" else {"steps": 1000} if word == "stopped" else {}
    yard.admit(program=args(**error))
    hosts = yard.launch(2)
    yard.machines.at(word, hosts[0].instance, fault, when=when)
    yard.run(240)
    if yard.said("ready"):
        yard.start(hosts)
    yard.run(60)
    if word == "stopped":
        yard.order("stop", hosts, 1)
    yard.run(300)
    of_first = [event["signal"] for event in yard.events if event["instance"] == hosts[0].instance]
    assert of_first.count(word) == (when == "after")
    assert hosts[0].state == ("crashed" if isinstance(fault, Dies) else "running")
    if when == "after":
        assert of_first[-1] == word


def test_the_others_of_a_gang_leave_when_one_dies() -> None:
    yard, (chief, worker) = training(program=args(steps=1000))
    yard.machines.at("progress", "chief", Dies())
    (stopped,) = yard.until("stopped")
    assert (stopped["instance"], stopped["why"]) == (worker.instance, "peer")
    assert chief.state == "crashed"


def test_a_host_that_is_cut_off_for_a_while_tells_all_that_it_could_not() -> None:
    yard, (chief, worker) = training(program=args(steps=1000))
    yard.machines.at("progress", "worker-1", IsCutOff(), when="before")
    yard.machines.at("checkpointed", "chief", IsCutOff(120))
    yard.until("checkpointed")
    yard.run(100)
    silent = len([event for event in yard.events if event["instance"] == chief.instance])
    yard.run(100)
    after_hang = [event["signal"] for event in yard.events if event["instance"] == chief.instance][silent:]
    assert after_hang[:2] == ["progress", "failed"]  # the log could not be uploaded
    assert yard.said("stopped")[0]["instance"] == worker.instance


def test_a_hanging_host_takes_no_order_until_it_continues() -> None:
    yard = Yard()
    yard.admit(cluster=SINGLE)
    (host,) = yard.launch(1)
    silent: list[bool] = []
    yard.machines.on_silence = lambda instance, is_silent: silent.append(is_silent)
    yard.until("ready")
    yard.run(60)
    yard.machines.at("ready", 0, Hangs(200))
    yard.run(20)
    assert not yard.machines.answers(host.instance)
    yard.start([host])
    yard.run(60)
    assert not yard.said("started")
    assert yard.until("started", most=200)
    assert silent == [True, False]


def test_a_signal_is_a_fault_point_once_however_often_it_is_retried() -> None:
    asked: list[str] = []
    yard = Yard()
    yard.admit()

    def plan(host: Any, word: str, when: When) -> Fault | None:
        asked.append(f"{when} {word}")
        return IsCutOff(300) if asked[-1] == "before started" else None

    yard.machines.on_stage = plan
    (host,) = yard.launch(1)
    yard.until("ready")
    yard.run(60)
    yard.start([host])
    yard.until("started")
    assert asked.count("before started") == 1


def test_a_signal_is_sent_twice_and_another_late() -> None:
    yard = Yard()
    yard.admit(cluster=SINGLE)
    yard.machines.at("started", 0, SendsTwice(), when="before")
    yard.machines.at("finished", 0, Late(300), when="before")
    (host,) = yard.launch(1)
    yard.until("ready")
    yard.run(60)
    yard.start([host])
    (finished,) = yard.until("finished")
    assert len(yard.said("started")) == 2
    assert finished["time"] - datetime.fromisoformat(finished["at"]) >= timedelta(seconds=299)


def test_hosts_that_never_boot_never_register_boot_late_or_have_their_clock_off() -> None:
    yard = Yard()
    yard.admit()
    yard.machines.at("boot", 0, NEVER_BOOTS, when="before")
    yard.machines.at("boot", 1, NeverRegisters(), when="before")
    yard.machines.at("boot", 2, Late(1500), when="before")
    yard.machines.at("boot", 3, ClockOff(60), when="before")
    never, unregistered, late, off = yard.launch(4)
    yard.run(300)
    ready = {event["instance"]: event for event in yard.said("ready")}
    assert set(ready) == {unregistered.instance, off.instance}
    assert set(yard.registered) == {off.instance}
    assert datetime.fromisoformat(ready[off.instance]["at"]) - ready[off.instance]["time"] == timedelta(
        seconds=60
    )
    yard.run(1500)
    assert {event["instance"] for event in yard.said("ready")} == {
        unregistered.instance,
        off.instance,
        late.instance,
    }
    assert never.instance not in yard.registered


def test_a_full_disk_is_final_before_the_start_and_reported_after_it() -> None:
    yard = Yard()
    yard.admit(cluster=SINGLE)
    yard.launch(1)
    yard.machines.at("ready", 0, DiskFull())
    (failed,) = yard.until("failed")
    assert (failed["kind"], failed["final"]) == ("host", True)
    yard, _ = training(1, cluster=SINGLE)
    yard.machines.at("progress", 0, DiskFull())
    (failed,) = yard.until("failed")
    assert failed["kind"] == "program"
    assert "the disk of this host is full" in failed["reason"]


def test_a_mount_that_is_refused_or_ends_leaves_the_host_to_the_next_attempt() -> None:
    yard = Yard()
    yard.admit(cluster=SINGLE)
    yard.launch(1)
    yard.machines.at("ready", 0, MountEnds())
    (failed,) = yard.until("failed")
    assert (failed["kind"], failed.get("final", False)) == ("host", False)
    assert "mounting its data failed" in failed["reason"]
    yard, _ = training(1, cluster=SINGLE)
    yard.machines.at("progress", 0, MountEnds())
    (stopped,) = yard.until("stopped")
    assert stopped["why"] == "hangs"
    assert "the mount of data.train" in stopped["reason"]


@pytest.mark.parametrize("signal", ["ready", "progress"])
def test_a_fatal_error_of_a_gpu_ends_the_attempt_before_the_start_and_during_it(signal: str) -> None:
    yard, _ = training(1, cluster=SINGLE)
    if signal == "ready":
        yard = Yard()
        yard.admit(cluster=SINGLE)
        hosts = yard.launch(1)
        yard.machines.at("ready", 0, Xid())
        yard.until("ready")
        yard.start(hosts)
    else:
        yard.machines.at(signal, 0, Xid())
    (failed,) = yard.until("failed")
    assert failed["kind"] == "hardware"
    assert (
        failed["reason"]
        == "a GPU of this host (PCI:0000:00:1e) reports Xid 79: the GPU has fallen off the bus"
    )


def test_a_program_that_cannot_be_run_is_found_out_when_it_is_fetched() -> None:
    yard = Yard()
    yard.admit()
    yard.machines.at("fetch", 0, ProgramEnds(lines=("program.module nope cannot be found",)), when="before")
    yard.launch(1)
    (failed,) = yard.until("failed")
    assert (failed["kind"], failed["final"]) == ("program", True)


def test_the_chief_is_done_while_the_others_hang() -> None:
    yard, (chief, worker) = training()
    yard.machines.at("started", "chief", OthersHang())
    yard.until("finished")
    yard.run(600)
    assert yard.words(worker) == ["ready", "started"]
    assert "finished" in yard.words(chief)


def test_the_whole_gang_hangs_at_a_word() -> None:
    yard, _ = training()
    yard.machines.at("checkpointed", "chief", GangHangs())
    yard.run(1200)
    assert len(yard.said("checkpointed")) == 1
    assert not yard.said("finished")
    assert {event["why"] for event in yard.said("stopped")} <= {"hangs"}


def test_every_signal_and_stage_is_a_fault_point_before_and_after() -> None:
    asked: set[tuple[str, str]] = set()
    yard = Yard()
    yard.admit()

    def plan(host: Any, word: str, when: When) -> Fault | None:
        asked.add((word, when))
        return None

    yard.machines.on_stage = plan
    hosts = yard.launch(2)
    yard.until("ready", 2)
    yard.run(60)
    yard.start(hosts)
    yard.until("finished")
    for word in (
        "boot",
        "register",
        "fetch",
        "ready",
        "start",
        "started",
        "progress",
        "checkpointed",
        "results",
    ):
        assert {(word, "before"), (word, "after")} <= asked
    assert {("join", "before"), ("upload", "before"), ("catalogue", "before")} <= asked


# ---- other hosts


def builder() -> tuple[Yard, Instance]:
    yard = Yard()
    (host,) = yard.launch(1, kind="bake", hours=1)
    yard.run(120)
    return yard, host


def bake(yard: Yard, host: Instance, word: str, **recipe: Any) -> CommandEnd:
    text = json.dumps({"commands": [], "tests": [], **recipe}).encode()
    yard.objects[f"runs/{RUN}/recipe.json"] = text
    said = {
        "Recipe": f"s3://{BUCKET}/runs/{RUN}/recipe.json",
        "Sha256": hashlib.sha256(text).hexdigest(),
        "Run": RUN,
    }
    command = yard.send(word, host, **{name: [value] for name, value in said.items()})
    yard.run(700)
    return yard.ends[command]


def test_a_builder_installs_tests_and_is_generalized() -> None:
    yard, host = builder()
    assert bake(yard, host, "install").exit_code == 0
    assert bake(yard, host, "test", tests=["true"]).exit_code == 0
    found = yard.json("tests.json")
    assert found["tests"][-1]["name"] == "tests[0]"
    assert found["tensorflow"] == "2.21.0"
    generalized = yard.send("generalize", host, Depth=["builder"])
    yard.run(30)
    assert "is generalized (builder)" in yard.ends[generalized].output
    assert not yard.events
    assert yard.metrics


def test_a_builders_ssm_documents_fail_at_their_last_line_and_equally_twice() -> None:
    yard, host = builder()
    failed = bake(yard, host, "install", commands=["true", "false"])
    assert (failed.exit_code, failed.errors) == (
        1,
        "install failed: commands[1]: `false` failed (exit code 1)\n",
    )
    assert bake(yard, host, "install", commands=[]) == failed


def test_a_builder_ends_with_its_lease() -> None:
    yard, host = builder()
    yard.run(3400)
    assert host.state == "running"
    yard.run(240)
    assert host.state == "off"


def test_a_host_from_an_image_registers_and_pauses_on_request() -> None:
    yard = Yard()
    (host,) = yard.launch(1, kind="dev-host")
    yard.run(120)
    assert host.instance in yard.registered
    pause = yard.send("pause", host)
    yard.run(5)
    assert yard.ends[pause].output == "no program of a run runs on this host: its disks are synced\n"


def test_a_paused_program_continues_on_its_own() -> None:
    yard, (host,) = training(1, cluster=SINGLE, program=args(steps=400))
    yard.until("progress", 2)
    yard.send("pause", host)
    yard.run(30)
    before = yard.said("progress")[-1]["step"]
    yard.run(60)
    assert yard.said("progress")[-1]["step"] <= before + 1
    yard.run(120)
    assert yard.said("progress")[-1]["step"] > before + 20


def test_a_generalized_host_stays_quiet_when_it_is_started_again() -> None:
    yard, (host,) = training(1, cluster=SINGLE)
    yard.until("finished")
    yard.send("generalize", host, Depth=["host"])
    yard.run(30)
    yard.machines.stop(host.instance)
    yard.run(150)
    said = len(yard.events)
    yard.machines.boot(host.instance)
    yard.run(300)
    assert len(yard.events) == said


def test_a_host_launched_by_hand_does_nothing() -> None:
    yard = Yard()
    (host,) = yard.launch(1)
    yard.machines.forget(host.instance)
    host.known_tags = {"Name": "mine"}
    yard.machines.boot(host.instance)
    yard.run(7200)
    assert (yard.events, yard.registered, yard.metrics) == ([], {}, [])


def test_a_host_that_is_rebooted_while_it_trains_says_so_and_is_done() -> None:
    yard, (host,) = training(1, cluster=SINGLE, program=args(steps=1000))
    yard.until("progress", 2)
    yard.machines.reboot(host.instance)
    yard.run(200)
    assert yard.said("stopped")[0]["why"] == "interrupted"
    assert yard.words(host)[-1] == "stopped"
    assert yard.machines.answers(host.instance)


def test_a_host_whose_power_was_cut_while_it_trained_says_that_its_program_was_killed() -> None:
    yard, (host,) = training(1, cluster=SINGLE, program=args(steps=1000))
    yard.until("progress", 2)
    yard.machines.cut_power(host.instance)
    yard.machines.boot(host.instance)
    assert yard.until("stopped")[0]["why"] == "killed"
    yard.run(30)
    assert yard.words(host)[-1] == "ready"


# ---- metrics


def test_a_host_that_trains_is_busy_and_idle_otherwise() -> None:
    yard, _ = training(1, cluster=SINGLE, program=args(steps=150))
    yard.until("finished")
    yard.run(180)
    values = [value for _, _, value in yard.metrics]
    assert values[0] == values[-1] == 0
    assert max(values) > 90


def test_metrics_can_be_computed_instead_of_put() -> None:
    yard = Yard(options={"puts_metrics": False})
    yard.admit(cluster=SINGLE, program=args(steps=150))
    (host,) = yard.launch(1)
    yard.until("ready")
    yard.run(60)
    begin = yard.world.now
    yard.start([host])
    yard.until("finished")
    minutes = yard.machines.gpu_minutes(host.instance, begin, yard.world.now)
    assert max(minutes.values()) > 90
    assert not yard.metrics


def test_hosts_without_gpus_publish_nothing() -> None:
    yard = Yard()
    yard.admit()
    yard.launch(1, type_="m7i.xlarge")
    yard.run(300)
    assert not yard.metrics


# ---- the table


def test_a_fault_can_be_injected_at_every_signal() -> None:
    missing = set(signals.SIGNALS) - set(SIGNALS) - {"dev-credentials"}  # the simulator launches no dev hosts
    assert missing == set(), "name the function that sends it in simulation/hosts/agent/contract.py"


def test_every_signal_is_sent_by_a_function_of_the_real_agent() -> None:
    named = [*SIGNALS.values(), *STAGES.values(), *STORED_IN_BUCKET.values()]
    named += [name for names in OTHER_SENDERS.values() for name in names]
    for path in filter(None, named):
        assert callable(_found(path)), path


@pytest.mark.parametrize("word", SIGNALS)
def test_the_real_agent_sends_every_signal(word: str) -> None:
    sent, name = signals.SIGNALS[word].__name__, SIGNALS[word].rpartition(".")[2]
    agent = "\n".join(file.read_text() for file in (ROOT / "training/host").rglob("*.py"))
    assert f"{sent}(" in agent, f"nothing in training/host makes the signal {sent}"
    uses = len(re.findall(rf"\b{name}\b", agent))
    assert uses > 1, f"nothing in training/host calls {SIGNALS[word]}, so hosts never send {word}"


def _found(path: str) -> Any:
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    return None


def test_many_waiting_hosts_are_cheap() -> None:
    """Idle hosts cause no events."""
    yard = Yard(options={"puts_metrics": False})
    count = 100
    for _ in range(count):
        yard.launch(1, kind="dev-host", hours=5)
    yard.run(200)
    happened = 0

    def count_steps() -> None:
        nonlocal happened
        happened += 1

    yard.world.on_step.append(count_steps)
    yard.run(3600)
    assert happened == 0
