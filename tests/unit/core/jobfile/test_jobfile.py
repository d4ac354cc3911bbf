"""A job file is read whole: a Job with every default, or every fault at once, each with its place."""
# ruff: noqa: E501 - one row, one sentence, one line

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import trainyard
from tests.unit.core.facts import BUCKET
from trainyard.core.jobfile import check
from trainyard.core.jobfile.check import JobSource
from trainyard.core.model import names
from trainyard.core.model.instance_types import MarketChoice
from trainyard.core.model.job import Checkpoints, Hosts, Job
from trainyard.core.model.job_fields import RUN_ID
from trainyard.core.model.program import PROGRAMS, Data, Result, Sharding
from trainyard.protocol.cluster import Role, Strategy
from trainyard.values import wire
from trainyard.values.validation import InputFaults

SMALLEST: dict[str, Any] = {"name": "digits", "program": {"module": "training.programs.digits"}}
ROOT = Path(__file__).parents[4]
SHIPPED = sorted([*(ROOT / "jobs").glob("*.yaml"), *(ROOT / "examples").glob("*.yaml")])
SERVERS: dict[str, Any] = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
EVALUATED: dict[str, Any] = {"workers": 2, "evaluator": True}


def faults_of(text: str | bytes, source: str = "jobs/x.yaml") -> dict[str, str]:
    """Problem by path."""
    raw = text.encode() if isinstance(text, str) else text
    found = check.parse(raw, source=source, bucket=BUCKET)
    assert isinstance(found, InputFaults), found
    assert found.reason.startswith(f"{source} has ")
    return {fault.path: fault.problem for fault in found.faults}


def job_of(document: dict[str, Any]) -> Job:
    found = check.check(document, source="jobs/x.yaml", bucket=BUCKET)
    assert isinstance(found, Job), found.reason
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_job_is_without_fault(path: Path) -> None:
    assert isinstance(check.parse(path.read_bytes(), source=path.name, bucket=BUCKET), Job)


def test_the_smallest_job_gets_every_default() -> None:
    job = job_of(SMALLEST)
    assert (job.cluster.strategy, job.cluster.workers, job.gang) == (Strategy.SINGLE, 1, 1)
    assert job.hardware.market is MarketChoice.SPOT_THEN_ON_DEMAND
    assert job.hardware.max_dollars_per_hour is None
    assert (job.limits.hours, job.limits.dollars, job.limits.restarts, job.limits.wait_minutes) == (
        6,
        20,
        5,
        60,
    )
    assert job.after.hosts is Hosts.TERMINATE


def test_labels_are_made_of_what_tags_are() -> None:
    labels = {"team": "vision", "cost center": "R&D".replace("&", "+"), "a/b:c=d@e": ""}
    assert job_of(SMALLEST | {"labels": labels}).labels == labels


def test_several_workers_mean_multi_worker() -> None:
    assert job_of(SMALLEST | {"cluster": {"workers": 3}}).cluster.strategy is Strategy.MULTI_WORKER


def test_multi_worker_may_have_one_worker() -> None:
    assert job_of(SMALLEST | {"cluster": {"workers": 1, "strategy": "multi_worker"}}).gang == 1


def test_an_empty_section_is_an_omitted_one() -> None:
    assert job_of(SMALLEST | {"data": None, "limits": None}) == job_of(SMALLEST)


def test_every_program_that_ships_can_be_named() -> None:
    files = (ROOT / "training" / "programs").glob("*.py")
    programs = {path.stem for path in files if '__name__ == "__main__"' in path.read_text()}
    assert {name for name in programs if not name.endswith("_data")} == set(PROGRAMS)


def test_parameter_servers_get_a_second_gang_without_gpus() -> None:
    job = job_of(SMALLEST | {"cluster": SERVERS | {"evaluator": True}})
    assert [str(role) for role in job.roles] == ["chief", "worker", "worker", "ps", "evaluator"]
    assert (job.gang, job.cpu_gang, job.hardware.cpu_roles) == (5, 2, (Role.CHIEF, Role.PS))
    assert job.hardware.cpu_instance_types == ("m7i.xlarge", "m6i.xlarge", "m7a.xlarge")


@pytest.mark.parametrize("given", [{}, SERVERS, {"workers": 2}, {"strategy": "mirrored"}])
def test_a_job_whose_hosts_have_no_gpu_has_one_gang(given: dict[str, Any]) -> None:
    types = ["m7i.xlarge", "c7i.large"]
    job = job_of(SMALLEST | {"cluster": given, "hardware": {"instance_types": types}})
    assert job.hardware.instance_types == ("m7i.xlarge", "c7i.large")
    assert (job.hardware.cpu_instance_types, job.cpu_gang) == ((), 0)


def test_a_chief_that_is_worker_0_takes_no_host_of_its_own_and_has_a_gpu() -> None:
    job = job_of(SMALLEST | {"cluster": SERVERS | {"chief": "worker"}})
    assert [str(role) for role in job.roles] == ["chief", "worker", "ps"]
    assert job.hardware.cpu_roles == (Role.PS,)


@pytest.mark.parametrize(
    ("hardware", "roles"),
    [
        ({}, ("chief", "ps")),
        ({"cpu_instance_types": ["m7i.xlarge"]}, ("chief", "ps")),
        ({"cpu_roles": ["ps"]}, ("ps",)),
        ({"cpu_roles": ["ps", "chief", "evaluator"]}, ("ps", "chief", "evaluator")),
        ({"cpu_roles": []}, ()),
        ({"cpu_instance_types": []}, ()),
        ({"cpu_instance_types": [], "cpu_roles": []}, ()),
    ],
)
def test_a_second_gang_has_both_types_and_roles_or_neither(
    hardware: dict[str, Any], roles: tuple[str, ...]
) -> None:
    found = job_of(SMALLEST | {"cluster": SERVERS, "hardware": hardware}).hardware
    assert found.cpu_roles == roles
    assert bool(found.cpu_instance_types) is bool(roles)


@pytest.mark.parametrize(
    ("hardware", "gangs"),
    [
        ({}, (3, 0)),
        ({"cpu_roles": ["evaluator"]}, (2, 1)),
        ({"cpu_instance_types": ["c7i.large"]}, (2, 1)),
        ({"cpu_instance_types": []}, (3, 0)),
        ({"cpu_roles": []}, (3, 0)),
        ({"instance_types": ["m7i.xlarge"], "cpu_roles": ["evaluator"]}, (3, 0)),
    ],
)
def test_an_evaluator_beside_workers_is_on_a_host_without_a_gpu_where_the_job_asks_for_it(
    hardware: dict[str, Any], gangs: tuple[int, int]
) -> None:
    job = job_of(SMALLEST | {"cluster": EVALUATED, "hardware": hardware})
    assert [str(role) for role in job.roles] == ["chief", "worker", "evaluator"]
    assert (job.gang - job.cpu_gang, job.cpu_gang) == gangs


def test_an_evaluator_is_no_worker_of_min_and_max() -> None:
    job = job_of(SMALLEST | {"cluster": {"workers": {"min": 1, "max": 3}, "evaluator": True}})
    assert (job.cluster.strategy, job.gang, job.at_least.gang) == (Strategy.MULTI_WORKER, 4, 2)


def test_a_command_that_starts_no_ranks_may_have_an_evaluator() -> None:
    program = {"command": ["python", "train.py", "${role}"], "source": "s3://BUCKET/programs/x.tar"}
    assert job_of(SMALLEST | {"cluster": EVALUATED, "program": program}).cluster.evaluator


def test_other_strategies_have_one_gang() -> None:
    found = job_of(SMALLEST | {"cluster": {"workers": 2}}).hardware
    assert (found.cpu_instance_types, found.cpu_roles) == ((), ())


def test_what_a_host_fills_in_is_kept_as_written() -> None:
    job = job_of(
        SMALLEST
        | {
            "cluster": SERVERS,
            "data": {"train": "s3://BUCKET/data/t/"},
            "program": SMALLEST["program"]
            | {
                "args": {"ps_hosts": "${ps_hosts}", "dir": "${data.train}/x", "plain": "$${HOME} $5 {x}"},
                "environment": {"LOGS": "${tensorboard}/${role}-${index}", "TF_USE_LEGACY_KERAS": "1"},
                "expect": ["model", "metrics"],
            },
        }
    )
    assert isinstance(job.program.args, Mapping)
    assert job.program.args["plain"] == "$${HOME} $5 {x}"
    assert job.program.environment["LOGS"] == "${tensorboard}/${role}-${index}"
    assert job.program.expect == (Result.MODEL, Result.METRICS)


def test_data_may_be_shared_out_by_file() -> None:
    data = {
        "train": {"source": "s3://BUCKET/data/t/", "sharding": "file"},
        "test": {"source": "s3://BUCKET/data/v/"},
    }
    assert job_of(SMALLEST | {"cluster": {"workers": 2}, "data": data}).data == {
        "train": Data(source=f"s3://{BUCKET}/data/t/", sharding=Sharding.FILE),
        "test": Data(source=f"s3://{BUCKET}/data/v/"),
    }


def test_checkpoints_have_their_defaults_one_by_one() -> None:
    assert job_of(SMALLEST).checkpoints == Checkpoints(steps=0, seconds=120, keep=3)
    found = job_of(SMALLEST | {"checkpoints": {"steps": 50}}).checkpoints
    assert found == Checkpoints(steps=50, seconds=120, keep=3)


def test_the_placeholder_and_the_bucket_mean_the_same() -> None:
    by_name, by_placeholder = (
        job_of(SMALLEST | {"data": {"train": f"s3://{bucket}/data/t/"}}) for bucket in (BUCKET, "BUCKET")
    )
    assert by_name == by_placeholder
    assert by_name.data == {"train": Data(source=f"s3://{BUCKET}/data/t/")}


def test_json_and_yaml_mean_the_same() -> None:
    text = json.dumps(SMALLEST | {"limits": {"hours": 1.5}}, indent="\t").encode()
    as_json = check.parse(text, source="jobs/x.json", bucket=BUCKET)
    as_yaml = check.parse(text.replace(b"\t", b"  "), source="jobs/x.yaml", bucket=BUCKET)
    assert isinstance(as_json, Job)
    assert as_json == as_yaml


def test_a_command_of_several_lines_is_called_by_its_first() -> None:
    command = ["bash", "-c", "cd x\npython train.py\n"]
    job = job_of({"name": "x", "program": {"source": "s3://BUCKET/programs/x.tar", "command": command}})
    assert job.program.called == "bash -c cd x ..."


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("the line ends of Windows", lambda text: text.replace("\n", "\r\n").encode()),
        ("a byte order mark", lambda text: text.encode("utf-8-sig")),
        ("both", lambda text: text.replace("\n", "\r\n").encode("utf-8-sig")),
    ],
)
@pytest.mark.parametrize("source", ["jobs/x.yaml", "jobs/x.json"])
def test_a_job_file_written_on_windows_is_read(how: str, text: Callable[[str], bytes], source: str) -> None:
    written = json.dumps(SMALLEST | {"limits": {"hours": 1.5}}, indent=2)
    job = check.parse(text(written), source=source, bucket=BUCKET)
    assert isinstance(job, Job), how
    assert job == check.parse(written.encode(), source=source, bucket=BUCKET)


def test_an_admitted_job_comes_back_equal() -> None:
    job = job_of(
        SMALLEST
        | {
            "program": {
                "module": "mine.train",
                "source": "s3://BUCKET/programs/mine.tar.gz",
                "args": {"rate": 1e-3, "n": 2, "flag": True, "word": "x; rm -rf /"},
                "requirements": "requirements.txt",
                "environment": {"MODE": "fast"},
                "expect": ["checkpoint"],
            },
            "data": {"train": {"source": "s3://BUCKET/data/t/", "sharding": "file"}},
            "cluster": SERVERS | {"evaluator": True},
            "hardware": {"market": "on_demand", "max_dollars_per_hour": 4, "cpu_roles": ["ps"]},
            "checkpoints": {"steps": 10, "seconds": 30, "keep": 2},
            "after": {"hosts": "stop", "image": "always"},
        }
    )
    assert wire.from_json(Job, json.loads(json.dumps(wire.to_json(job)))) == job


def test_arguments_are_taken_as_a_person_reads_them() -> None:
    text = """
name: digits
program:
  module: training.programs.digits
  args: {rate: 1e-3, zip: 010, start: 1:30, day: 2026-01-01, big: 1_000, on-gpu: true, word: 'no'}
"""
    job = check.parse(text.encode(), source="jobs/x.yaml", bucket=BUCKET)
    assert isinstance(job, Job)
    assert job.program.args == {
        "rate": 0.001,
        "zip": "010",
        "start": "1:30",
        "day": "2026-01-01",
        "big": 1000,
        "on-gpu": True,
        "word": "no",
    }


UNREADABLE = [
    # the text, a part of what is said of it
    ("", "is empty"),
    ("# only a comment\n", "is empty"),
    ("- a\n- b\n", "not a mapping but a list"),
    ("just words", 'not a mapping but "just words"'),
    ("name: a: b", "line 1, column 8"),
    ("name: digits\n\tprogram: x\n", "line 2, column 1"),
    ("name: {a: 1", "line 1"),
    ("name: 'open", "line 1"),
    ("name: one\nname: two\n", 'line 2, column 1: the key "name" stands twice'),
    ("name: a\n---\nname: b\n", "line 2"),
    ("a: &x [1]\nb: *x\n", "line 1, column 4: anchors (&) and aliases (*) are refused"),
    ("a: !!python/object/apply:os.system ['true']\n", "line 1, column 4: tags (!) are refused"),
    ("[" * 500 + "]" * 500, "nested more than"),
    ("name: " + "9" * 6000, "cannot be read"),
    ("? [1]\n: 2\n", "line 1"),
    (b"\xff\xfe\x00", "not UTF-8 text (byte 1 is not)"),
    (b"\x89PNG\r\n\x1a\n\x00", "not UTF-8"),
    ("name: \x00", "not YAML"),
    (b"a" * (64 * 1024 + 1), "65537 bytes; a job file has at most 65536"),
    (b"a" * 2_000_000, "2000000 bytes"),
]


@pytest.mark.parametrize(("text", "said"), UNREADABLE, ids=[said for _, said in UNREADABLE])
def test_what_cannot_be_read_is_one_fault(text: str | bytes, said: str) -> None:
    found = faults_of(text)
    assert list(found) == [""]
    assert said in found[""]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "a",}', "line 1, column 14"),
        ('{"name": "a"', "line 1, column 13"),
        ('{"a": 1, "a": 2}', 'the key "a" stands twice'),
        ("[" * 200_000, "bytes"),
        ("[" * 60_000, "nested more than"),
        ("name: digits", "line 1, column 1"),
    ],
)
def test_a_json_file_is_read_as_json(text: str, said: str) -> None:
    assert said in faults_of(text, source="jobs/x.json")[""]


def changed(**sections: Any) -> dict[str, Any]:
    """The smallest job with keys replaced; a mapping changes keys inside its section."""
    document = {key: dict(value) if isinstance(value, dict) else value for key, value in SMALLEST.items()}
    for key, value in sections.items():
        document[key] = document.get(key, {}) | value if isinstance(value, dict) else value
    return document


SOURCE = {"source": "s3://BUCKET/programs/x.tar.gz"}
SERVERS = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
BAD = [
    # where, what is written, a part of the sentence
    ("nmae", changed(nmae="x"), 'unknown key; allowed are name, program, data, cluster, hardware, checkpoints, outputs, limits, after, pool, labels, policy, origin; did you mean "name"?'),
    ("1", SMALLEST | {1: 2}, "unknown key"),
    ("pool.keep", changed(pool={"keep": 17}), "found the number 17; a whole number from 0 to 16"),
    ("pool.keep", changed(pool={"keep": 2}), "found 2; the run has 1 host: keep 1 at most"),
    ("pool.keep", changed(pool={"keep": 3}, cluster=SERVERS), "found 3; the run has 2 hosts on hardware.instance_types"),
    ("pool.minutes", changed(pool={"keep": 1, "minutes": 121}), "found the number 121; a number of minutes from 1 to 120"),
    ("pool.keep", changed(pool={"keep": 1}, after={"image": "on_success"}), "goes with after.image: never only, found on_success"),
    ("pool.keep", changed(pool={"keep": 1}, after={"hosts": "stop"}, hardware={"market": "on_demand"}), "goes with after.hosts: terminate only"),
    ("policy", changed(pool={"keep": 1}, policy={"grace_minutes": 5}), "with pool.keep none is allowed"),
    ("policy", changed(policy=["window_minutes"]), "found a list; a mapping with the keys window_minutes, idle_percent"),
    ("policy.window_minutes", changed(policy={"window_minutes": "30"}), 'found "30"; a number of minutes from 1 to 1440'),
    ("policy.archive_days", changed(policy={"archive_days": -1}), "found the number -1; a number of days above 0"),
    ("policy.idle_percent", changed(policy={"idle_percent": float("nan")}), "found the number nan"),
    ("policy.idle_spot", changed(policy={"idle_spot": "keep"}), 'found "keep"; allowed are archive, terminate'),
    ("policy.windows", changed(policy={"windows": 5}), 'unknown key; allowed are window_minutes, idle_percent'),
    ("name", {"program": SMALLEST["program"]}, "is missing"),
    ("name", changed(name=""), "is not a name"),
    ("name", changed(name="Digits"), '"Digits" is not a name of 1 to 40 lower-case letters'),
    ("name", changed(name="a" * 41), "is not a name"),
    ("name", changed(name="digits\n"), "is not a name"),
    ("name", changed(name=5), "found the number 5"),
    ("name", changed(name=True), "found the boolean true"),
    ("program", changed(program="train.py"), 'found "train.py"; a mapping with the keys source, module, command, shell, args, environment, secrets, requirements, progress, expect, strict'),
    ("program.module", {"name": "x"}, "is missing"),
    ("program.module", changed(program={"module": "a;rm -rf /"}), "is not a dotted Python module name"),
    ("program.module", changed(program={"module": "$(id)"}), "is not a dotted Python module name"),
    ("program.module", changed(program={"module": "a..b"}), "is not a dotted Python module name"),
    ("program.module", changed(program={"module": "train.py "}), "is not a dotted Python module name"),
    ("program.module", changed(program={"module": "modul\u00e9"}), "is not a dotted Python module name"),
    ("program.module", changed(program=SOURCE | {"module": "a." * 150 + "a"}), "is not a dotted Python module name"),
    ("program.module", changed(program={"module": ["a"]}), "found a list"),
    ("program.module", changed(program={"module": "mine.train"}), "needs program.source"),
    ("program.source", changed(program={"source": "https://x/y.tar.gz"}), "is not an S3 URI in the yard's bucket"),
    ("program.source", changed(program={"source": "s3://Other/programs/x.tar.gz"}), "names no bucket that there can be"),
    ("program.source", changed(program={"source": "s3://other/x.zip"}), "does not end in .tar or .tar.gz or .tgz"),
    ("program.source", changed(program={"source": "s3://BUCKET/data/x.tar.gz"}), "is not under programs/"),
    ("program.source", changed(program={"source": "s3://BUCKET/programs/"}), "is not under programs/"),
    ("program.source", changed(program={"source": "s3://BUCKET/programs/../runs/x.tar.gz"}), ".. part"),
    ("program.source", changed(program={"source": "s3://BUCKET/programs/x.zip"}), "does not end in .tar or .tar.gz or .tgz"),
    ("program.source", changed(program={"source": 7}), "found the number 7"),
    ("program.requirements", changed(program={"requirements": "requirements.txt"}), "needs program.source"),
    ("program.requirements", changed(program=SOURCE | {"requirements": "../x.txt"}), "is not a relative path"),
    ("program.requirements", changed(program=SOURCE | {"requirements": "/etc/passwd"}), "is not a relative path"),
    ("program.requirements", changed(program=SOURCE | {"requirements": "a; rm"}), "is not a relative path"),
    ("program.args", changed(program={"args": "--epochs 5"}), "a mapping of names to values, or a list of words, is allowed"),
    ("program.args[1]", changed(program={"args": ["gpu", True]}), "found the boolean true; a text (up to 1024 characters, no control characters) or number is allowed: write it in quotes"),
    ("program.args[0]", changed(program={"args": [["gpu"]]}), "found a list"),
    ("program.args[0]", changed(program={"args": ["${indx}"]}), 'did you mean "index"?'),
    ("program.args", changed(program={"args": ["x"] * 101}), "found a list of 101"),
    ("program.command", changed(program=SOURCE | {"command": ["torchrun", "train.py"]}), "stands beside program.module; one of them is allowed"),
    ("program.command", {"name": "x", "program": {"command": []}}, "found a list of 0; a list of 1 to 100 words"),
    ("program.command", {"name": "x", "program": {"command": "torchrun train.py"}}, "a list of 1 to 100 words: a text (up to 1024 characters, no control characters) or number is allowed; write [torchrun, train.py]"),
    ("program.command", {"name": "x", "program": {"command": "python train.py --name 'a b' --lr 0.1"}}, 'write [python, train.py, --name, "a b", --lr, "0.1"]'),
    ("program.command", {"name": "x", "program": {"command": "cd src\npython train.py\n"}}, "write `shell: |` and the lines below it"),
    ("program.command", {"name": "x", "program": {"command": "python train.py | tee log"}}, "write `shell: |`"),
    ("program.command", {"name": "x", "program": {"command": "python 'train.py"}}, "write `shell: |`"),
    ("env", changed(env={"A": "1"}), "unknown key; allowed are name, program, data, cluster, hardware, checkpoints, outputs, limits, after, pool, labels, policy, origin; its place in a job file is program.environment"),
    ("program.env", changed(program={"env": {"A": "1"}}), "its place in a job file is program.environment"),
    ("script", changed(script="train.py"), "program.command, as in [python, train.py]"),
    ("run", changed(run="python train.py"), "program.shell, lines that bash runs"),
    ("command", changed(command=["python", "train.py"]), "its place in a job file is program.command"),
    ("Workers", changed(Workers=2), "its place in a job file is cluster.workers"),
    ("hardware.hours", changed(hardware={"hours": 2}), "its place in a job file is limits.hours"),
    ("program.data", changed(program={"data": {}}), "its place in a job file is data"),
    ("program.source", changed(program=SOURCE | {"source": "src"}), 'for the folder beside the job file write "./src"'),
    ("program.source", changed(program=SOURCE | {"source": "/home/me/src"}), "written as seen from the job file, as in ./src or ../src"),
    ("program.source", changed(program=SOURCE | {"source": "https://github.com/a/b"}), 'for a git repository write "git+https://github.com/a/b"'),
    ("program.source", changed(program=SOURCE | {"source": "git@github.com:a/b.git"}), 'write "git+ssh://git@github.com/a/b.git"'),
    ("program.source", changed(program=SOURCE | {"source": "git+https://github.com/a/b@v1"}), "is in a git repository: `trainyard submit` sends it along"),
    ("data.train", changed(data={"train": "data/digits"}), 'write "./data/digits"'),
    ("data.x_sharding", changed(data={"x": "s3://BUCKET/data/x/", "x_sharding": "s3://BUCKET/data/y/"}), "maps to the variable TRAINYARD_DATA_X_SHARDING, which says how data.x is shared out; give data.x or data.x_sharding another name"),
    ("origin.commit", changed(origin={"commit": "main"}), "is not the whole id of a commit"),
    ("program.command[0]", {"name": "x", "program": {"command": [{"torchrun": 2}]}}, "found a mapping"),
    ("program.command[1]", {"name": "x", "program": {"command": ["sh", "${rang}"]}}, 'did you mean "rank"?'),
    ("program.command", {"name": "x", "program": {"command": ["torchrun", "--nnodes=2", "train.py"]}}, '"train.py" would be a file of program.source'),
    ("program.command", {"name": "x", "program": {"command": ["./run.sh"]}}, '"run.sh" would be a file of program.source'),
    ("program.shell", changed(program=SOURCE | {"shell": "python train.py"}), "stands beside program.module; one of them is allowed"),
    ("program.shell", {"name": "x", "program": {"command": ["nvidia-smi"], "shell": "nvidia-smi"}}, "stands beside program.command; one of them is allowed"),
    ("program.shell", {"name": "x", "program": {"shell": " \n"}}, "is empty; a text of up to 10000 characters"),
    ("program.shell", {"name": "x", "program": {"shell": ["python", "train.py"]}}, "found a list"),
    ("program.shell", {"name": "x", "program": {"shell": "x" * 10_001}}, "has 10001 characters; up to 10000 are allowed: put the lines into a file"),
    ("program.shell", {"name": "x", "program": {"shell": "date\nls\x07"}}, 'holds the control character "\\u0007" in line 2'),
    ("program.shell", {"name": "x", "program": {"shell": "set -x\npython train.py | tee x"}}, '"train.py" would be a file of program.source'),
    ("program.shell", {"name": "x", "program": {"shell": "ls ${data.trian}"}}, '"${data.trian}" is nothing that a host can fill in'),
    ("program.shell", {"name": "x", "program": {"shell": "ls ${ps_hosts}"}}, "${ps_hosts} needs the strategy parameter_server"),
    ("program.strict", {"name": "x", "program": {"shell": "date", "strict": "on"}}, "true or false"),
    ("hardware.zones", changed(hardware={"zones": []}), "found a list of 0; a list of 1 to 10 different Availability Zones"),
    ("hardware.zones", changed(hardware={"zones": "us-east-1a"}), "a list of 1 to 10 different Availability Zones"),
    ("hardware.zones[1]", changed(hardware={"zones": ["us-east-1a", "us-east-1a"]}), "stands in the list twice"),
    ("hardware.zones[0]", changed(hardware={"zones": ["US East"]}), "is not the name of an Availability Zone, as in us-east-1a"),
    ("hardware.image", changed(hardware={"image": {"tensorflow": 2.18}}), 'found the number 2.18; text is allowed: write it in quotes'),
    ("hardware.image", changed(hardware={"image": {"tensorflow": "new"}}), '"new" is not a version in quotes'),
    ("hardware.image", changed(hardware={"image": {"cuda": "12"}}), "found a mapping with the keys cuda; tensorflow alone is allowed"),
    ("hardware.disk_gib", changed(hardware={"disk_gib": 0}), "a whole number from 1 to 16384 is allowed"),
    ("hardware.disk_gib", changed(hardware={"disk_gib": "200"}), "a whole number from 1 to 16384"),
    ("program.args.layers", changed(program={"args": {"layers": [1, 2]}}), "found a list; one text, number or boolean"),
    ("program.args.deep", changed(program={"args": {"deep": {"a": 1}}}), "found a mapping"),
    ("program.args.none", changed(program={"args": {"none": None}}), "found nothing"),
    ("program.args.--x", changed(program={"args": {"--x": 1}}), 'the name "--x" is not'),
    ("program.args.1", changed(program={"args": {1: 1}}), "the name the number 1 is not"),
    ("program.args.x", changed(program={"args": {"x": "a\x00b"}}), "without control characters"),
    ("program.args.x", changed(program={"args": {"x": float("nan")}}), "write it in quotes"),
    ("program.args.x", changed(program={"args": {"x": 10**400}}), "write it in quotes"),
    ("program.args.x", changed(program={"args": {"x": 1e-200}}), "write it in quotes"),
    ("program.args.x", changed(program={"args": {"x": "a" * 1025}}), "up to 1024 are allowed"),
    ("program.args", changed(program={"args": {f"a{n}": n for n in range(101)}}), "101 entries; up to 100"),
    ("data", changed(data=["s3://BUCKET/data/x/"]), "found a list; a mapping of names to values"),
    ("data.train", changed(data={"train": "s3://elsewhere_/x/"}), "names no bucket that there can be"),
    ("data.train", changed(data={"train": "s3://elsewhere/"}), "names a whole bucket"),
    ("data.train", changed(data={"train": "s3://elsewhere/x/../y/"}), ".. part"),
    ("data.train", changed(data={"train": "s3://BUCKET/runs/x/"}), "is not under data/"),
    ("data.train", changed(data={"train": "s3://BUCKET/data/x"}), 'did you mean "s3://BUCKET/data/x/"?'),
    ("data.train", changed(data={"train": "/data/x/"}), "is not an S3 URI"),
    ("data.train", changed(data={"train": "s3://BUCKET/data//x/"}), "an empty, . or .. part"),
    ("data.train", changed(data={"train": None}), "found nothing"),
    ("data.train-set", changed(data={"train-set": "s3://BUCKET/data/x/"}), 'the name "train-set" is not'),
    ("cluster", changed(cluster=3), "found the number 3; a mapping"),
    ("cluster.wokers", changed(cluster={"wokers": 2}), 'did you mean "workers"?'),
    ("cluster.workers", changed(cluster={"workers": 0}), "found the number 0; a whole number from 1 to 50"),
    ("cluster.workers", changed(cluster={"workers": -2}), "found the number -2"),
    ("cluster.workers", changed(cluster={"workers": 51}), "found the number 51"),
    ("cluster.workers", changed(cluster={"workers": True}), "found the boolean true"),
    ("cluster.workers", changed(cluster={"workers": 2.0}), "found the number 2.0"),
    ("cluster.workers", changed(cluster={"workers": "2"}), 'found "2"'),
    ("cluster.workers", changed(cluster={"strategy": "mirrored", "workers": 2}), "1 is allowed with the strategy mirrored"),
    ("cluster.workers", changed(cluster={"strategy": "single", "workers": 2}), "1 is allowed with the strategy single"),
    ("cluster.workers", changed(cluster={"workers": {"min": 4, "max": 2}}), "min is 4, which is above max, 2"),
    ("cluster.workers.min", changed(cluster={"workers": {"min": 0, "max": 2}}), "found the number 0; a whole number from 1 to 50"),
    ("cluster.workers.max", changed(cluster={"workers": {"min": 1, "max": 51}}), "found the number 51"),
    ("cluster.workers.max", changed(cluster={"workers": {"min": 2}}), "is missing"),
    ("cluster.workers.most", changed(cluster={"workers": {"min": 2, "max": 3, "most": 3}}), "unknown key; allowed are min, max"),
    ("cluster.workers", changed(cluster={"strategy": "mirrored", "workers": {"min": 1, "max": 2}}), "one number is allowed with the strategy mirrored: it has one host"),
    ("cluster.workers", changed(cluster=SERVERS | {"workers": {"min": 2, "max": 4}}), "made for one number of workers (multi_worker may have min and max)"),
    ("data.x.sharding", changed(cluster={"workers": {"min": 2, "max": 4}}, data={"x": {"source": "s3://BUCKET/data/x/", "sharding": "file"}}), "could not go on with more or fewer"),
    ("cluster.strategy", changed(cluster={"strategy": "multiworker"}), 'did you mean "multi_worker"?'),
    ("cluster.workers", changed(cluster=SERVERS | {"workers": 0}), "only workers train, also with parameter_server, whose chief only coordinates"),
    ("cluster.parameter_servers", changed(cluster={"strategy": "parameter_server", "workers": 2}), "found nothing; 1 or more are required"),
    ("cluster.parameter_servers", changed(cluster=SERVERS | {"parameter_servers": 0}), "found 0; 1 or more are required"),
    ("cluster.parameter_servers", changed(cluster=SERVERS | {"parameter_servers": "1"}), 'found "1"; a whole number'),
    ("cluster.parameter_servers", changed(cluster=SERVERS | {"parameter_servers": 3}), "more parameter servers than workers (3 for 2)"),
    ("cluster.parameter_servers", changed(cluster={"workers": 2, "parameter_servers": 1}), "1 is allowed with the strategy parameter_server only, found multi_worker"),
    ("cluster.chief", changed(cluster={"workers": 2, "chief": "worker"}), "worker is allowed with the strategy parameter_server only, found multi_worker"),
    ("cluster.chief", changed(cluster=SERVERS | {"chief": "wroker"}), 'did you mean "worker"?'),
    ("cluster.evaluator", changed(cluster={"evaluator": True}), "true is allowed with the strategies multi_worker and parameter_server only, found single: it is a host of its own"),
    ("cluster.evaluator", changed(cluster={"strategy": "mirrored", "evaluator": True}), "multi_worker and parameter_server only, found mirrored"),
    ("cluster.evaluator", changed(cluster=EVALUATED, program={"command": ["python3", "-m", "torch.distributed.run", "train.py"], "source": "s3://BUCKET/programs/x.tar"}), "true does not go with program.command torchrun, which starts ranks: an evaluator is none"),
    ("cluster.evaluator", changed(cluster=EVALUATED, program={"command": ["torchrun", "train.py"], "source": "s3://BUCKET/programs/x.tar"}), "true does not go with program.command torchrun, which starts ranks: an evaluator is none"),
    ("program.args.rank", changed(cluster=EVALUATED, program={"args": {"rank": "${rank}"}}), "${rank} stands for nothing on the evaluator, which is no rank"),
    ("cluster.evaluator", changed(cluster=SERVERS | {"evaluator": 1}), "found the number 1; true or false"),
    ("cluster", changed(cluster=SERVERS | {"workers": 48, "parameter_servers": 2}), "makes 51 hosts (1 chief, 48 worker, 2 ps); up to 50"),
    ("hardware.cpu_instance_types", changed(hardware={"cpu_instance_types": ["m7i.xlarge"]}), "multi_worker and parameter_server only, found single"),
    ("hardware.cpu_roles", changed(cluster={"workers": 2}, hardware={"cpu_roles": ["evaluator"]}), "needs cluster.evaluator: true with the strategy multi_worker: all its other hosts train"),
    ("hardware.cpu_roles", changed(cluster=EVALUATED, hardware={"cpu_roles": ["chief", "evaluator"]}), "found chief; evaluator is allowed with the strategy multi_worker: its chief is worker 0 and trains"),
    ("hardware.cpu_instance_types", changed(cluster=EVALUATED, hardware={"cpu_instance_types": ["m7i.xlarge"], "cpu_roles": []}), "is for nobody, since cpu_roles is empty"),
    ("hardware.cpu_roles[0]", changed(cluster=SERVERS, hardware={"cpu_roles": ["worker"]}), "allowed are chief, ps, evaluator"),
    ("hardware.cpu_roles[1]", changed(cluster=SERVERS, hardware={"cpu_roles": ["ps", "ps"]}), "twice"),
    ("hardware.cpu_roles", changed(cluster=SERVERS, hardware={"cpu_roles": "ps"}), 'found "ps"; a list of chief, ps, evaluator'),
    ("hardware.cpu_roles", changed(cluster=SERVERS, hardware={"cpu_instance_types": [], "cpu_roles": ["ps"]}), "needs cpu_instance_types, which is empty"),
    ("hardware.cpu_instance_types", changed(cluster=SERVERS, hardware={"cpu_instance_types": ["m7i.xlarge"], "cpu_roles": []}), "is for nobody, since cpu_roles is empty"),
    ("hardware.cpu_instance_types[0]", changed(cluster=SERVERS, hardware={"cpu_instance_types": ["g6.xlarge"]}), "has a GPU, which these roles would pay for and not use; it belongs in instance_types"),
    ("hardware.cpu_instance_types[0]", changed(cluster=SERVERS, hardware={"cpu_instance_types": ["m7i.xlarg"]}), 'did you mean "m7i.xlarge"?'),
    ("hardware.instance_types", changed(hardware={"instance_types": ["m7i.xlarge", "g6.xlarge"]}), "g6.xlarge has GPUs, m7i.xlarge has none; all types are allowed to have some, or none"),
    ("program.module", changed(program={"module": "training.programs.mnits"}), 'did you mean "training.programs.mnist"?'),
    ("program.module", changed(program={"module": "training.programs.datasets.digits"}), "needs program.source"),
    ("program.environment", changed(program={"environment": ["A=1"]}), "found a list; a mapping of names to values"),
    ("program.environment.a", changed(program={"environment": {"a": "x"}}), 'the name "a" is not a name of up to 64 capital letters'),
    ("program.environment.N", changed(program={"environment": {"N": 1}}), "found the number 1; text is allowed: write it in quotes"),
    ("program.environment.N", changed(program={"environment": {"N": True}}), "write it in quotes"),
    ("program.environment.N", changed(program={"environment": {"N": None}}), "found nothing"),
    ("program.environment.N", changed(program={"environment": {"N": "a\x07b"}}), "without control characters"),
    ("program.environment.TF_CONFIG", changed(program={"environment": {"TF_CONFIG": "{}"}}), "is not a job's to set"),
    ("program.environment.TRAINYARD_X", changed(program={"environment": {"TRAINYARD_X": "1"}}), "is not a job's to set"),
    ("program.environment.WANDB_API_KEY", changed(program={"environment": {"WANDB_API_KEY": "x"}}), "program.secrets: {WANDB_API_KEY: NAME}"),
    ("program.environment.HF_TOKEN", changed(program={"environment": {"HF_TOKEN": "x"}}), "aws ssm put-parameter --type SecureString"),
    ("program.environment.PASSWORD", changed(program={"environment": {"PASSWORD": "x"}}), "looks like a secret"),
    ("labels", changed(labels=["a"]), "found a list; a mapping of names to values"),
    ("labels", changed(labels={f"l{n}": "" for n in range(21)}), "up to 20"),
    ("labels.team", changed(labels={"team": 5}), 'quote numbers: "1"'),
    ("labels.team", changed(labels={"team": "a" * 257}), "up to 256 letters"),
    ("labels.team", changed(labels={"team": "a\u202eb"}), "is not a text of up to 256 letters"),
    ("labels.aws:x", changed(labels={"aws:x": "1"}), "begins with neither aws: nor trainyard:"),
    ("labels.trainyard:run", changed(labels={"trainyard:run": "1"}), "begins with neither aws: nor trainyard:"),
    ("program.progress", changed(program={"progress": r"loss (?P<loss>\d+)"}), "finds no step; a group named step or epoch is required"),
    ("program.progress", changed(program={"progress": r"(?P<step>\d+) \1"}), "which RE2, by which hosts match, does not know"),
    ("program.progress", changed(program={"progress": r"(?P<step>"}), "is no regular expression"),
    ("program.progress", changed(program={"progress": 1}), "found the number 1; a regular expression of up to 500 characters"),
    ("program.secrets", changed(program={"secrets": ["A"]}), "found a list; a mapping of names to values"),
    ("program.secrets", changed(program={"secrets": {f"S{n}": "s" for n in range(11)}}), "up to 10"),
    ("program.secrets.A", changed(program={"secrets": {"A": "a/b"}}), '"a/b" is not the name of a secret'),
    ("program.secrets.A", changed(program={"secrets": {"A": ""}}), "the name of a secret"),
    ("program.secrets.A", changed(program={"secrets": {"A": "*"}}), "the name of a secret"),
    ("program.secrets.AWS_SECRET_ACCESS_KEY", changed(program={"secrets": {"AWS_SECRET_ACCESS_KEY": "a"}}), "is not a job's to set"),
    ("program.secrets.A", changed(program={"secrets": {"A": "a"}, "environment": {"A": "a"}}), "stands in program.environment too"),
    ("program.environment.LD_PRELOAD", changed(program={"environment": {"LD_PRELOAD": "x.so"}}), "is not a job's to set"),
    ("program.environment.DIR", changed(program={"environment": {"DIR": "${data.trian}"}}, data={"train": "s3://BUCKET/data/t/"}), 'did you mean "data.train"?'),
    ("program.args.dir", changed(program={"args": {"dir": "${data.train}"}}), '"${data.train}" is nothing that a host can fill in'),
    ("program.args.dir", changed(program={"args": {"dir": "${checkpoint}/x"}}), 'did you mean "checkpoints"?'),
    ("program.args.dir", changed(program={"args": {"dir": "a ${role"}}), "write \"$${\" for a plain"),
    ("program.args.ps", changed(program={"args": {"ps": "${ps_hosts}"}}, cluster={"workers": 2}), "${ps_hosts} needs the strategy parameter_server, found multi_worker"),
    ("program.expect", changed(program={"expect": "model"}), 'found "model"; a list of model, metrics, checkpoint'),
    ("program.expect[1]", changed(program={"expect": ["model", "metric"]}), 'did you mean "metrics"?'),
    ("data.train.source", changed(data={"train": {"sharding": "none"}}), "found nothing; s3://BUCKET/data"),
    ("data.train.source", changed(data={"train": {"source": "s3://BUCKET/data/x"}}), 'did you mean "s3://BUCKET/data/x/"?'),
    ("data.train.shard", changed(data={"train": {"source": "s3://BUCKET/data/x/", "shard": "file"}}), 'did you mean "sharding"?'),
    ("data.train.sharding", changed(data={"train": {"source": "s3://BUCKET/data/x/", "sharding": "auto"}}), "allowed are none, file"),
    ("data.train.sharding", changed(data={"train": {"source": "s3://BUCKET/data/x/", "sharding": "file"}}), "the strategy single has one host"),
    ("checkpoints.steps", changed(checkpoints={"steps": -1}), "a whole number from 0 to 1000000000"),
    ("checkpoints.seconds", changed(checkpoints={"seconds": 0.5}), "a number of seconds from 1 to 86400"),
    ("checkpoints.keep", changed(checkpoints={"keep": 0}), "a whole number from 1 to 100"),
    ("checkpoints.every", changed(checkpoints={"every": 5}), "unknown key; allowed are steps, seconds, keep"),
    ("hardware.instance_types", changed(hardware={"instance_types": "g6.xlarge"}), 'found "g6.xlarge"; a list of 1 to 10'),
    ("hardware.instance_types", changed(hardware={"instance_types": []}), "found a list of 0"),
    ("hardware.instance_types", changed(hardware={"instance_types": ["g6.xlarge"] * 11}), "found a list of 11"),
    ("hardware.instance_types[1]", changed(hardware={"instance_types": ["g6.xlarge", "g5.xlarg"]}), '"g5.xlarg" is not an EC2 instance type that Trainyard knows; did you mean "g5.xlarge"?'),
    ("hardware.instance_types[0]", changed(hardware={"instance_types": ["m5.large"]}), "is not an EC2 instance type that Trainyard knows"),
    ("hardware.instance_types[0]", changed(hardware={"instance_types": [None]}), "nothing is not an EC2 instance type"),
    ("hardware.image", changed(hardware={"image": "ami-12"}), '"ami-12" is not the id of an image (ami- and 8 to 17 hex digits), of a run, or the name of a family'),
    ("hardware.image", changed(hardware={"image": "my image"}), "is not the id of an image"),
    ("hardware.image", changed(hardware={"image": 5}), "found the number 5; the id of an image"),
    ("hardware.instance_types[1]", changed(hardware={"instance_types": ["g6.xlarge", "g6.xlarge"]}), "twice"),
    ("hardware.market", changed(hardware={"market": "on-demand"}), 'did you mean "on_demand"?'),
    ("hardware.market", changed(hardware={"market": ["spot"]}), "found a list"),
    ("hardware.max_dollars_per_hour", changed(hardware={"max_dollars_per_hour": 0}), "above 0"),
    ("limits.hours", changed(limits={"hours": 0}), "found the number 0; a number of hours above 0 and up to 720"),
    ("limits.hours", changed(limits={"hours": float("nan")}), "found the number nan"),
    ("limits.hours", changed(limits={"hours": float("inf")}), "found the number inf"),
    ("limits.hours", changed(limits={"hours": 10**400}), "up to 720"),
    ("limits.hours", changed(limits={"hours": 1000}), "up to 720"),
    ("limits.hours", changed(limits={"hours": True}), "found the boolean true"),
    ("limits.dollars", changed(limits={"dollars": 0}), "found the number 0"),
    ("limits.dollars", changed(limits={"dollars": -5}), "found the number -5"),
    ("limits.dollars", changed(limits={"dollars": "20"}), 'found "20"'),
    ("limits.restarts", changed(limits={"restarts": -1}), "a whole number from 0 to 20"),
    ("limits.restarts", changed(limits={"restarts": 1.5}), "found the number 1.5"),
    ("limits.wait_minutes", changed(limits={"wait_minutes": 0}), "found the number 0"),
    ("limits.wait_mins", changed(limits={"wait_mins": 5}), 'did you mean "wait_minutes"?'),
    ("after.hosts", changed(after={"hosts": "keep"}), "allowed are terminate, stop"),
    ("after.hosts", changed(after={"hosts": "stop"}), "EC2 can terminate spot hosts of a fleet but never stop them"),
    ("after.image", changed(after={"image": "on-success"}), 'did you mean "on_success"?'),
    ("after.image", changed(after={"image": True}), "found the boolean true"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "document", "said"), BAD, ids=[f"{path}: {said}" for path, _, said in BAD])
def test_a_fault_has_its_path_and_says_what_is_allowed(
    path: str, document: dict[str, Any], said: str
) -> None:
    found = check.check(document, source="jobs/x.yaml", bucket=BUCKET)
    assert isinstance(found, InputFaults)
    assert said in {fault.path: fault.problem for fault in found.faults}[path]


BARE = [
    ("name: no\nprogram: {module: training.programs.digits}", "name"),
    ("name: x\nprogram: {module: training.programs.digits, args: {shuffle: off}}", "program.args.shuffle"),
    ("name: x\nprogram: {module: on}", "program.module"),
    ("name: x\nprogram: {module: training.programs.digits}\nafter: {image: NO}", "after.image"),
]


@pytest.mark.parametrize(("text", "path"), BARE)
def test_a_bare_yes_or_no_is_reported_not_guessed(text: str, path: str) -> None:
    assert "found the bare word" in faults_of(text)[path]


def test_every_fault_is_said_at_once_and_in_order() -> None:
    text = """
name: Digits
program: {module: a b}
data: {train: s3://BUCKET/data/x}
cluster: {workers: 0, strategy: mirored}
hardware: {instance_types: [g5.xlarg], market: cheap}
limits: {hours: 0, dollars: 0, restarts: many, wait_minutes: -1}
after: {hosts: stop, image: maybe}
colour: red
"""
    assert list(faults_of(text)) == [
        "colour",
        "name",
        "program.module",
        "data.train",
        "cluster.strategy",
        "cluster.workers",
        "hardware.instance_types[0]",
        "hardware.market",
        "limits.hours",
        "limits.dollars",
        "limits.restarts",
        "limits.wait_minutes",
        "after.image",
        "after.hosts",
    ]


def test_ten_thousand_faults_make_a_short_reason() -> None:
    text = "\n".join(f"k{n}: 1" for n in range(6000)).encode()
    found = check.parse(text, source="jobs/x.yaml", bucket=BUCKET)
    assert isinstance(found, InputFaults)
    assert len(found.reason) < 10_000
    assert found.reason.endswith("more")


def test_every_reason_can_be_written_as_utf_8() -> None:
    text = '{"name": "\\ud800", "\\udfff": 1}'
    found = check.parse(text.encode(), source="jobs/x.json", bucket=BUCKET)
    assert isinstance(found, InputFaults)
    assert b"\\ud800" in found.reason.encode()


def test_what_is_shown_of_a_long_value_is_short() -> None:
    found = check.check(changed(name="x" * 5000), source="jobs/x.yaml", bucket=BUCKET)
    assert isinstance(found, InputFaults)
    assert len(found.reason) < 500


INPUTS: list[tuple[object, object]] = [
    ({"job_key": "jobs/x.yaml"}, JobSource(job_key="jobs/x.yaml")),
    ({"job_key": "jobs/UPPER.YAML"}, JobSource(job_key="jobs/UPPER.YAML")),
    (
        {"job_key": "jobs/a/b.json", "version_id": "v", "etag": "e"},
        JobSource(job_key="jobs/a/b.json", version_id="v", etag="e"),
    ),
    ({"job": {"name": "x"}}, JobSource(job={"name": "x"})),
    ({}, "found neither job_key nor job"),
    (None, "found neither job_key nor job"),
    ("jobs/x.yaml", "a mapping with the keys"),
    ({"job_key": "jobs/x.yaml", "job": {}}, "found both job_key and job"),
    ({"job_key": "data/x.yaml"}, "is not a key under jobs/"),
    ({"job_key": "jobs/x.txt"}, "is not a key under jobs/"),
    ({"job_key": 5}, "found the number 5"),
    ({"job": "digits"}, 'found "digits"; a mapping'),
    ({"job_kye": "jobs/x.yaml"}, 'did you mean "job_key"?'),
]


NAMES = [
    ("digits-1a2b3c4d", True),
    ("A_b", True),
    ("x" * 80, True),
    ("with.dots", False),
    ("it's (mine)", False),
    ("-first", False),
    ("x" * 81, False),
]


@pytest.mark.parametrize(("name", "fits"), NAMES)
def test_an_execution_whose_name_fits_no_command_is_refused_before_anything_is_launched(
    name: str, fits: bool
) -> None:
    found = names.misnamed(name)
    assert found is None if fits else name[:40] in (found.reason if found else "")


def test_the_documents_take_every_run_that_is_admitted() -> None:
    for document in ("start", "stop"):
        text = (Path(__file__).parents[4] / "stacks" / "documents" / f"{document}.yaml").read_text()
        assert f'allowedPattern: "^{RUN_ID}$"' in text


@pytest.mark.parametrize(("given", "expected"), INPUTS)
def test_an_execution_runs_exactly_one_job(given: object, expected: object) -> None:
    found = check.read_input(given)
    if isinstance(expected, str):
        assert isinstance(found, InputFaults)
        assert expected in found.reason
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("text", "key", "name"),
    [
        (b"name: digits", "jobs/other.yaml", "digits"),
        (b"name: Bad Name", "jobs/My Job (2).yaml", "my-job-2"),
        (b"\x00\xff", "jobs/sub/9-lives.yaml", "lives"),
        (b"", "jobs/---.yaml", "job"),
        (b"a" * 100_000, "jobs/" + "x" * 90 + ".yaml", "x" * 40),
    ],
)
def test_a_run_gets_a_legal_name_whatever_is_uploaded(text: bytes, key: str, name: str) -> None:
    assert check.name_of(text, key=key) == name


SHELL = """\
# names, defaults and expansions of the shell's own
set -u; for model in a b; do echo "${model%.py} $${HOME}" ; done
if [ -n "${RUN_NAME:-}" ]; then echo "${#RUN_NAME} ${!RUN*}"; fi
\techo ${anything at all} 'emoji \U0001f468\u200d\U0001f469' ${
"""


def test_lines_for_a_shell_are_kept_as_written() -> None:
    job = job_of({"name": "x", "program": {"shell": SHELL}})
    assert job.program.shell == SHELL
    assert job.program.called == "# names, defaults and expansions of the shell's own ..."


def test_min_and_max_of_workers() -> None:
    job = job_of(changed(cluster={"workers": {"min": 2, "max": 8}}))
    assert (job.cluster.strategy, job.gang, job.at_least.gang) == (Strategy.MULTI_WORKER, 8, 2)
    assert job.cluster.is_elastic


def test_the_same_least_and_most_is_a_number() -> None:
    assert job_of(changed(cluster={"workers": {"min": 3, "max": 3}})).cluster.workers == 3


TEXTS = [
    "👩‍👩‍👧 an emoji with joiners",
    "全角　の空白",
    "a\u00a0no-break\u202fspace",
    "שלום \u200f עולם",
    "two\nlines",
    "a\ttab",
    "a line\u2028that is one",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_any_script_may_be_given_to_a_program(text: str) -> None:
    program = {"module": "training.programs.digits", "args": {"name": text}, "environment": {"NAME": text}}
    job = check.check({"name": "x", "program": program}, source="jobs/x.yaml", bucket=BUCKET)
    assert isinstance(job, Job), job.reason
    line = {"command": ["sh", "-c", text], "args": [text]}
    assert isinstance(check.check({"name": "x", "program": line}, source="jobs/x.yaml", bucket=BUCKET), Job)
    schema = json.loads((Path(trainyard.__file__).parent / "job.schema.json").read_text())
    jsonschema.validate({"name": "x", "program": program}, schema)
    jsonschema.validate({"name": "x", "program": line}, schema)


@pytest.mark.parametrize("text", ["\x00", "a\x07", "\x1b[31m", "\x7f", "\x85", "a\rb", "\ud800"])
def test_a_control_character_is_refused_in_all_that_a_program_is_given(text: str) -> None:
    for program in ({"args": {"x": text}}, {"args": [text]}, {"environment": {"X": text}}):
        given = {"name": "x", "program": {"module": "training.programs.digits"} | program}
        found = check.check(given, source="jobs/x.yaml", bucket=BUCKET)
        assert isinstance(found, InputFaults)
        assert "without control characters" in found.reason
