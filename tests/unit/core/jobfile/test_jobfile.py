"""Reading a job file gives a Job with every default, or all faults at once, each with its path."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import trainyard
from tests.support.job_files import BAD, EVALUATED, ROOT, SERVERS, SHIPPED, SMALLEST, change_job
from tests.unit.core.builders import BUCKET
from trainyard.core.jobfile import check
from trainyard.core.jobfile.check import JobSource
from trainyard.core.model import names
from trainyard.core.model.instance_types import MarketChoice
from trainyard.core.model.job import Checkpoints, Hosts, Job
from trainyard.core.model.job_fields import RUN_ID
from trainyard.core.model.program import OF_MODELS, PROGRAMS, Data, Result, Sharding
from trainyard.protocol.cluster import Role, Strategy
from trainyard.protocol.trial import Trial
from trainyard.values import serialization
from trainyard.values.validation import InputFaults


def faults_of(text: str | bytes, source: str = "jobs/x.yaml") -> dict[str, str]:
    """Return the problems of a bad job file, by path."""
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
    assert {name for name in programs if not name.endswith("_data")} == {*PROGRAMS, *OF_MODELS}


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
    assert serialization.from_json(Job, json.loads(json.dumps(serialization.to_json(job)))) == job


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
    # the text, a part of the message
    ("", "is empty"),
    ("# only a comment\n", "is empty"),
    ("- a\n- b\n", "not a mapping but a list"),
    ("just words", 'not a mapping but "just words"'),
    ("name: a: b", "line 1, column 8"),
    ("name: digits\n\tprogram: x\n", "line 2, column 1"),
    ("name: {a: 1", "line 1"),
    ("name: 'open", "line 1"),
    ("name: one\nname: two\n", 'line 2, column 1: the key "name" occurs twice'),
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
        ('{"name": "a",}', "line 1, column 1"),  # 14, and from Python 3.13 on 13
        ('{"name": "a"', "line 1, column 13"),
        ('{"a": 1, "a": 2}', 'the key "a" occurs twice'),
        ("[" * 200_000, "bytes"),
        ("[" * 60_000, "nested more than"),
        ("name: digits", "line 1, column 1"),
    ],
)
def test_a_json_file_is_read_as_json(text: str, said: str) -> None:
    assert said in faults_of(text, source="jobs/x.json")[""]


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
    found = check.check(change_job(name="x" * 5000), source="jobs/x.yaml", bucket=BUCKET)
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
    (
        {"job": {}, "trial": {"study": "digits-0a1b2c3d", "number": 12, "submitter": "ada"}},
        JobSource(job={}, trial=Trial(study="digits-0a1b2c3d", number=12, submitter="ada")),
    ),
    ({"job": {}, "trial": {"study": "digits-0a1b2c3d", "submitter": "ada"}}, "trial.number: is missing"),
    ({"job": {}, "trial": {"study": "Digits", "number": 1001, "submitter": "a b"}}, "from 1 to 1000"),
    ({"job": {}, "trial": "digits-0a1b2c3d"}, '- trial: found "digits-0a1b2c3d"'),
    (
        {"job_key": "jobs/x.yaml", "trial": {"study": "d", "number": 1, "submitter": "ada"}},
        "trial: is allowed only with job",
    ),
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
    found = names.name_fault(name)
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
    job = job_of(change_job(cluster={"workers": {"min": 2, "max": 8}}))
    assert (job.cluster.strategy, job.gang, job.at_least.gang) == (Strategy.MULTI_WORKER, 8, 2)
    assert job.cluster.is_elastic


def test_the_same_least_and_most_is_a_number() -> None:
    assert job_of(change_job(cluster={"workers": {"min": 3, "max": 3}})).cluster.workers == 3


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
