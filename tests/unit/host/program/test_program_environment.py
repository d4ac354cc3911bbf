import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.builders import admitted
from training.host.errors import ProgramFault
from training.host.metadata import NO_FILES
from training.host.paths import Paths
from training.host.program.environment import (
    arguments,
    command_line,
    environment,
    fill,
    fill_shell,
    placeholders,
)
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Cluster, Role, Strategy

CHIEF = Assignment("i-1", Role.CHIEF, 0, "10.0.1.5")
WORKERS = tuple(Assignment(f"i-{2 + index}", Role.WORKER, index, f"10.0.1.{6 + index}") for index in range(2))
SERVER = Assignment("i-4", Role.PS, 0, "10.0.2.5")
EVALUATOR = Assignment("i-5", Role.EVALUATOR, 0, "10.0.2.6")
OF_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE")
"""Variables that add a machine's own packages."""
HERE = Paths()
BASE = {"PATH": "/bin", "TF_CONFIG": "old", "TF_CPP_MIN_LOG_LEVEL": "1"} | dict.fromkeys(OF_PYTHON, "/theirs")


def cluster(strategy: str, *assignments: Assignment) -> Cluster:
    return Cluster(
        run="digits-1a2b3c4d",
        attempt=2,
        strategy=Strategy(strategy),
        assignments=assignments,
        deadline=datetime(2026, 11, 20, tzinfo=UTC),
    )


def job(program: dict[str, Any] | None = None, *, sharding: str = "none") -> Job:
    return admitted(
        program={"module": "train"} | (program or {}),
        data={"train-set": {"source": "s3://b/data/x/", "sharding": sharding}},
        checkpoints={"steps": 50},
    )


JOB = job()


def given(of: Cluster, assignment: Assignment, of_job: Job = JOB, paths: Paths = HERE) -> dict[str, str]:
    return environment(
        of, assignment, of_job, paths, region="us-east-1", image="ami-1", base=BASE, secrets={}
    )


STARTUP = "/opt/trainyard/agent/training/host/program/startup"


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("s3://b/p.tar", f"{STARTUP}:/var/lib/trainyard/home/program"),
        (None, f"{STARTUP}:/var/lib/trainyard/home/program:/opt/trainyard/agent"),
    ],
)
def test_only_programs_that_are_shipped_have_the_package_training_on_their_path(
    source: str | None, path: str
) -> None:
    assert given(cluster("single", CHIEF), CHIEF, job({"source": source}))["PYTHONPATH"] == path


def test_a_program_is_told_where_everything_is() -> None:
    assert (
        given(cluster("single", CHIEF), CHIEF).items()
        >= {
            "PATH": "/bin",
            "TRAINYARD_RUN": "digits-1a2b3c4d",
            "TRAINYARD_ATTEMPT": "2",
            "TRAINYARD_IMAGE": "ami-1",
            "TRAINYARD_STRATEGY": "single",
            "TRAINYARD_ROLE": "chief",
            "TRAINYARD_INDEX": "0",
            "TRAINYARD_WORKERS": "1",
            "TRAINYARD_FORM_SECONDS": "100",
            "TRAINYARD_CHECKPOINT_STEPS": "50",
            "TRAINYARD_CHECKPOINT_SECONDS": "120",
            "TRAINYARD_CHECKPOINT_KEEP": "3",
            "TRAINYARD_CHECKPOINTS": "/var/lib/trainyard/home/checkpoints",
            "TRAINYARD_MODEL": "/var/lib/trainyard/home/results/model",
            "TRAINYARD_METRICS": "/var/lib/trainyard/home/results/metrics.json",
            "TRAINYARD_NOTEBOOK": "/var/lib/trainyard/home/results/notebook",
            "TRAINYARD_TENSORBOARD": "/var/lib/trainyard/home/results/tensorboard",
            "TRAINYARD_PROGRESS": "/var/lib/trainyard/home/attempts/0002/progress.jsonl",
            "TRAINYARD_DATA_TRAIN_SET": "/var/lib/trainyard/home/data/train-set",
            "TRAINYARD_DATA_TRAIN_SET_SHARDING": "none",
        }.items()
    )


def test_where_hosts_fetch_shards_after_the_order_the_cluster_has_more_time() -> None:
    of = cluster("multi_worker", CHIEF, WORKERS[1])
    assert given(of, CHIEF, job(sharding="file"))["TRAINYARD_FORM_SECONDS"] == "1800"


CLUSTER = {"chief": ["10.0.1.5:2222"], "worker": ["10.0.1.6:2222", "10.0.1.7:2222"], "ps": ["10.0.2.5:2222"]}


@pytest.mark.parametrize(
    ("assignment", "task"),
    [
        (CHIEF, {"type": "chief", "index": 0}),
        (WORKERS[1], {"type": "worker", "index": 1}),
        (SERVER, {"type": "ps", "index": 0}),
        (EVALUATOR, {"type": "evaluator", "index": 0}),
    ],
    ids=lambda value: value.role if isinstance(value, Assignment) else "",
)
def test_every_role_knows_the_cluster_and_its_own_task(assignment: Assignment, task: dict[str, Any]) -> None:
    of = cluster("parameter_server", CHIEF, *WORKERS, SERVER, EVALUATOR)
    assert json.loads(given(of, assignment)["TF_CONFIG"]) == {"cluster": CLUSTER, "task": task}


@pytest.mark.parametrize(
    ("assignment", "task"),
    [
        (CHIEF, {"type": "worker", "index": 0}),
        (Assignment("i-2", Role.WORKER, 1, "10.0.1.6"), {"type": "worker", "index": 1}),
        (SERVER, {"type": "ps", "index": 0}),
    ],
)
def test_a_chief_that_is_worker_0_makes_a_cluster_without_a_chief(
    assignment: Assignment, task: dict[str, Any]
) -> None:
    members = (CHIEF, Assignment("i-2", Role.WORKER, 1, "10.0.1.6"), SERVER)
    of = cluster("parameter_server", *members)
    workers = {"worker": ["10.0.1.5:2222", "10.0.1.6:2222"], "ps": ["10.0.2.5:2222"]}
    assert json.loads(given(of, assignment)["TF_CONFIG"]) == {"cluster": workers, "task": task}


@pytest.mark.parametrize(
    ("assignment", "task"),
    [
        (CHIEF, {"type": "worker", "index": 0}),
        (Assignment("i-2", Role.WORKER, 1, "10.0.1.6"), {"type": "worker", "index": 1}),
        (EVALUATOR, {"type": "evaluator", "index": 0}),
    ],
)
def test_an_evaluator_beside_workers_in_step_is_told_of_the_cluster_and_no_part_of_it(
    assignment: Assignment, task: dict[str, Any]
) -> None:
    of = cluster("multi_worker", CHIEF, Assignment("i-2", Role.WORKER, 1, "10.0.1.6"), EVALUATOR)
    workers = {"worker": ["10.0.1.5:2222", "10.0.1.6:2222"]}
    assert json.loads(given(of, assignment)["TF_CONFIG"]) == {"cluster": workers, "task": task}


@pytest.mark.parametrize("strategy", ["single", "mirrored"])
def test_one_host_needs_no_tf_config_and_none_is_left_from_elsewhere(strategy: str) -> None:
    assert "TF_CONFIG" not in given(cluster(strategy, CHIEF), CHIEF)


def test_a_program_reads_what_aws_keys_it_has_put_into_its_own_home() -> None:
    """Only the agent ignores these files, because it acts for the host."""
    of = cluster("single", CHIEF)
    found = environment(of, CHIEF, JOB, HERE, region="r", image="i", base=BASE | NO_FILES, secrets={})
    assert "AWS_SHARED_CREDENTIALS_FILE" not in found
    assert found["AWS_CONFIG_FILE"] == str(HERE.aws_config)


def test_the_jobs_environment_overrides_defaults_but_no_promise() -> None:
    own = {"TF_CPP_MIN_LOG_LEVEL": "0", "WHO": "${role}-${index}", "TRAINYARD_RUN": "mine"}
    of, asks = cluster("single", CHIEF), job({"environment": own})
    found = given(of, CHIEF, asks)
    assert (found["WHO"], found["TRAINYARD_RUN"]) == ("chief-0", "digits-1a2b3c4d")
    assert (
        environment(of, CHIEF, asks, HERE, region="r", image="i", base={}, secrets={})["TF_CPP_MIN_LOG_LEVEL"]
        == "0"
    )


def test_args_become_a_command_line() -> None:
    line = arguments(
        {"epochs": 5, "learning-rate": 0.001, "augment": True, "quiet": False, "name": "a b"}, {}
    )
    assert line == ["--epochs", "5", "--learning-rate", "0.001", "--augment", "--name", "a b"]


def test_a_program_that_builds_its_cluster_from_flags_is_given_them() -> None:
    args = {"ps_hosts": "${ps_hosts}", "worker_hosts": "${worker_hosts}", "task_index": "${task_index}"}
    of = cluster("parameter_server", CHIEF, *WORKERS, SERVER)
    assert command_line(of, WORKERS[0], job({"args": args}), Paths(Path("/x")))[1:] == [
        "-m", "train",
        "--ps_hosts", "10.0.2.5:2222",
        "--worker_hosts", "10.0.1.5:2222,10.0.1.6:2222,10.0.1.7:2222",
        "--task_index", "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("assignment", "job_name", "task_index"),
    [(CHIEF, "worker", "0"), (WORKERS[0], "worker", "1"), (WORKERS[1], "worker", "2"), (SERVER, "ps", "0")],
)
def test_in_a_cluster_of_flags_the_chief_is_the_first_worker(
    assignment: Assignment, job_name: str, task_index: str
) -> None:
    known = placeholders(cluster("parameter_server", CHIEF, *WORKERS, SERVER), assignment, JOB, HERE)
    assert (known["job_name"], known["task_index"]) == (job_name, task_index)


@pytest.mark.parametrize(
    ("sentence", "text", "filled"),
    [
        ("a word is replaced", "${role}", "ps"),
        ("wherever it stands", "a${role}b${index}", "apsb3"),
        ("twice the dollar is a plain one", "$${role}", "${role}"),
        ("a lone dollar is itself", "$role $5", "$role $5"),
        ("data have a point in their word", "${data.train}/x", "/d/x"),
    ],
)
def test_words_in_args_and_environment(sentence: str, text: str, filled: str) -> None:
    assert fill(text, {"role": "ps", "index": "3", "data.train": "/d"}) == filled, sentence


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(ProgramFault, match=r"\$\{data\.trian\} is not defined; use one of data\.train, role"):
        fill("${data.trian}", {"role": "ps", "data.train": "/d"})


@pytest.mark.parametrize(
    ("sentence", "args", "line"),
    [
        ("true is only the flag, false is nothing", {"augment": True, "quiet": False}, ["--augment"]),
        ("a text like an option is joined", {"extra": "--xla"}, ["--extra=--xla"]),
        ("one dash, too", {"extra": "-v"}, ["--extra=-v"]),
        ("a number below 0 is not an option", {"bias": -5}, ["--bias", "-5"]),
        ("a list is as it stands", ["gpu", 1500, 0.5, "--no-cache"], ["gpu", "1500", "0.5", "--no-cache"]),
        ("with its words filled in", ["${role}"], ["ps"]),
        ("an empty list", [], []),
    ],
)
def test_what_args_say_on_a_command_line(
    sentence: str, args: dict[str, Any] | list[Any], line: list[str]
) -> None:
    assert arguments(args, {"role": "ps"}) == line, sentence


def test_a_command_runs_as_it_is_with_its_words_filled_in_and_args_behind_it() -> None:
    program = {
        "module": None,
        "command": ["torchrun", "--node-rank=${rank}", "--rdzv-endpoint=${master_addr}:${master_port}", 2],
        "args": {"hosts": "${hosts}"},
    }
    of = cluster("multi_worker", CHIEF, Assignment("i-2", Role.WORKER, 1, "10.0.1.6"))
    assert command_line(of, of.assignments[1], job(program), Paths(Path("/x"))) == [
        "torchrun", "--node-rank=1", "--rdzv-endpoint=10.0.1.5:29500", "2", "--hosts", "10.0.1.5,10.0.1.6",
    ]  # fmt: skip


SHELL_LINES: list[tuple[str, str, str]] = [
    # name, lines, lines that bash reads
    ("our words", "ls ${checkpoints} '${data.train}'", "ls /x/checkpoints '/x/data'"),
    ("the shell's own", "echo ${HOME} ${x:-y} ${#x} ${checkpoints%/} $checkpoints", ""),
    ("a word of ours as the shell's own", "echo $${checkpoints}", "echo ${checkpoints}"),
    ("a process id before braces", "echo $${x}", ""),
    ("a word that is assigned", "checkpoints=1\necho ${checkpoints}", ""),
    ("or counted through", "for checkpoints in a b; do echo ${checkpoints}; done", ""),
    ("or read", "while read -r name checkpoints; do echo ${checkpoints}; done", ""),
    (
        "an option of that name assigns nothing",
        "x --checkpoints=${checkpoints}",
        "x --checkpoints=/x/checkpoints",
    ),
]


@pytest.mark.parametrize(("sentence", "lines", "filled"), SHELL_LINES, ids=[row[0] for row in SHELL_LINES])
def test_which_words_of_a_shells_lines_are_replaced(sentence: str, lines: str, filled: str) -> None:
    known = {"checkpoints": "/x/checkpoints", "data.train": "/x/data"}
    assert fill_shell(lines, known) == (filled or lines), sentence


def run_lines(lines: str, args: dict[str, Any] | None = None) -> "subprocess.CompletedProcess[str]":
    asks = job({"module": None, "shell": lines, "args": args or {}})
    line = command_line(cluster("single", CHIEF), CHIEF, asks, Paths(Path("/x")))
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_lines_for_a_shell_end_with_the_first_command_that_fails_also_inside_a_pipe() -> None:
    done = run_lines("echo one\nsh -c 'exit 7' | cat\necho two")
    assert (done.returncode, done.stdout) == (7, "one\n")


def test_args_of_lines_for_a_shell_are_their_parameters() -> None:
    assert run_lines('echo "$@"', {"epochs": 3, "fast": True}).stdout == "--epochs 3 --fast\n"


def test_bash_names_the_line_of_program_shell_that_it_cannot_run() -> None:
    done = run_lines("echo one\n\nno-such-command")
    assert done.stderr == "program.shell: line 3: no-such-command: command not found\n"
    assert done.returncode == 127


RANKS = {
    "WORLD_SIZE": "3", "NNODES": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.0.1.5",
    "MASTER_PORT": "29500", "JAX_COORDINATOR_ADDRESS": "10.0.1.5:8476", "JAX_NUM_PROCESSES": "3",
}  # fmt: skip


@pytest.mark.parametrize(("instance", "rank"), [("i-1", "0"), ("i-2", "1"), ("i-3", "2")])
def test_every_host_of_a_cluster_has_its_rank_and_knows_where_all_meet(instance: str, rank: str) -> None:
    workers = [Assignment(f"i-{index + 1}", Role.WORKER, index, f"10.0.1.{5 + index}") for index in (1, 2)]
    of = cluster("multi_worker", *reversed(workers), CHIEF)
    assignment = of.assignment(instance)
    assert assignment
    own = dict.fromkeys(("RANK", "NODE_RANK", "GROUP_RANK", "JAX_PROCESS_ID"), rank)
    assert given(of, assignment).items() >= (RANKS | own).items()


def test_parameter_servers_have_the_ranks_behind_the_workers() -> None:
    of = cluster("parameter_server", SERVER, *WORKERS, CHIEF)
    ranks = {each.role: given(of, each)["RANK"] for each in (CHIEF, WORKERS[1], SERVER)}
    assert ranks == {"chief": "0", "worker": "2", "ps": "3"}


@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_an_evaluator_is_no_rank_and_counts_in_no_world(strategy: str) -> None:
    of = cluster(strategy, EVALUATOR, *WORKERS, CHIEF)
    assert {given(of, each)["WORLD_SIZE"] for each in (CHIEF, *WORKERS)} == {"3"}
    assert placeholders(of, CHIEF, JOB, HERE)["hosts"] == "10.0.1.5,10.0.1.6,10.0.1.7"
    assert not (RANKS.keys() | {"RANK", "NODE_RANK", "JAX_PROCESS_ID"}) & given(of, EVALUATOR).keys()
    assert "rank" not in placeholders(of, EVALUATOR, JOB, HERE)


@pytest.mark.parametrize("strategy", ["single", "mirrored"])
def test_one_host_has_no_rank_since_its_gpus_are_the_programs_to_share_out(strategy: str) -> None:
    assert (
        not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"}
        & given(cluster(strategy, CHIEF), CHIEF).keys()
    )


def test_a_job_may_have_its_processes_meet_at_another_port() -> None:
    asks = job({"environment": {"MASTER_PORT": "29555"}})
    assert given(cluster("multi_worker", CHIEF), CHIEF, asks)["MASTER_PORT"] == "29555"


def test_no_variable_of_the_machine_names_packages_of_its_own() -> None:
    variables = given(cluster("single", CHIEF), CHIEF)
    assert "/theirs" not in ":".join(variables.values()).split(":")


def test_commands_are_found_with_the_run_then_the_image_then_the_system(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    for python in (paths.python, paths.venv / "bin/python"):
        python.parent.mkdir(parents=True)
        python.touch()
    path = given(cluster("single", CHIEF), CHIEF, paths=paths)["PATH"]
    assert path == f"{paths.venv}/bin:{paths.python.parent}:/bin"
