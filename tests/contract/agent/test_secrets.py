"""program.secrets on a host: only in the program's environment."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.agent.host import Yard
from tests.contract.conftest import allow, eventually

VALUE = "correct-horse-battery-staple"
PROGRAM = """
import hashlib, json, os, pathlib, time
value = os.environ["WANDB_API_KEY"]
print("the key is", value, flush=True)
print("sum", hashlib.sha256(value.encode()).hexdigest(), flush=True)
wait = pathlib.Path(os.environ["TRAINYARD_MODEL"]).parent / "go-on"
while os.environ.get("WAITS") and not wait.exists():
    time.sleep(0.05)
if os.environ.get("FAILS"):
    raise ValueError(f"the service refuses {value}")
"""


@pytest.fixture(autouse=True)
def secret(yard: Yard) -> Iterator[str]:
    name = f"/{yard.name}/secrets/wandb"
    ssm = yard.cloud.client("ssm")
    ssm.put_parameter(Name=name, Type="SecureString", Value=VALUE)
    yield name
    if ssm.get_parameters(Names=[name])["Parameters"]:
        ssm.delete_parameter(Name=name)


def prepare(yard: Yard, **environment: str) -> None:
    secrets = {"WANDB_API_KEY": "wandb"}
    yard.prepare(PROGRAM, program={"secrets": secrets, "environment": environment})


def files_with(text: str, folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if text.encode() in path.read_bytes()]


def test_a_program_has_its_secret_and_nobody_reads_it_in_bucket_signals_or_files(yard: Yard) -> None:
    prepare(yard)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    log = yard.log()
    assert "the key is ***" in log
    assert f"sum {hashlib.sha256(VALUE.encode()).hexdigest()}" in log
    assert VALUE not in str(yard.heard)
    assert [key for key in yard.keys("runs/") if VALUE in yard.read(key)] == []
    printed = yard.paths.program_log(1, "chief", 0)
    assert files_with(VALUE, yard.root) == [printed], "only what the program itself has printed has it"


def test_a_failure_is_told_without_the_secret(yard: Yard) -> None:
    prepare(yard, FAILS="1")
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert "the service refuses ***" in failed["reason"]
    assert VALUE not in str(failed)


@pytest.mark.parametrize("ends", ["meanwhile", "later"])
def test_an_agent_that_was_restarted_hides_it_too(yard: Yard, ends: str) -> None:
    """Test with and without a running program."""
    prepare(yard, WAITS="1", FAILS="1")
    end = yard.paths.results / "go-on"
    service = yard.metadata()
    with yard.agent_process(service):
        yard.hear("ready")
        yard.order("start", 1)
        yard.hear("started")
        eventually(lambda: "the key is" in yard.paths.program_log(1, "chief", 0).read_text())
    if ends == "meanwhile":
        end.touch()
        eventually(yard.paths.exit_code(1).exists)
    with yard.agent_process(service):
        if ends == "later":
            eventually(lambda: "the key is ***" in yard.log())
            end.touch()
        failed = yard.hear("failed")
    assert "the service refuses ***" in failed["reason"]
    assert VALUE not in yard.log() + str(yard.heard)


def test_a_secret_that_has_gone_meanwhile_is_final_and_says_what_to_type(yard: Yard, secret: str) -> None:
    prepare(yard)
    yard.cloud.client("ssm").delete_parameter(Name=secret)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert f"--type SecureString --name {secret} --value file:///dev/stdin" in failed["reason"]
    assert failed["final"] is True


def test_credentials_that_do_not_reach_it_are_named(yard: Yard, secret: str) -> None:
    prepare(yard)
    yard.give(yard.cloud.acting_as(allow(["s3:*", "kms:*"])))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    assert f"the role of runs lacks ssm:GetParameters on {secret}" in yard.hear("failed")["reason"]
