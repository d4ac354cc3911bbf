"""The files that an image may contain. A folder stands in for a disk."""

import json
import time
from pathlib import Path

import pytest

from training.host.errors import HostTrouble
from training.host.image.disk_identity import owner, take_over
from training.host.image.generalize import generalize
from training.host.metadata import Identity
from training.host.paths import Paths

INSTANCE = "i-0aaa"
KEY = "AKIA" + "ABCDEFGH12345678"
IDENTITY = (
    "etc/ssh/ssh_host_ed25519_key",
    "etc/ssh/ssh_host_ed25519_key.pub",
    "etc/trainyard/host.json",
    "var/lib/cloud/instances/i-0aaa/user-data.txt",
    "var/lib/amazon/ssm/Vault/Store/EC2RegistrationKey",
    "var/lib/amazon/ssm/i-0aaa/document/orchestration/11/awsrunShellScript/start/stdout",
    "var/lib/systemd/random-seed",
)
AGENTS = (
    "run/trainyard/orders/start.json",
    "var/lib/trainyard/state.json",
    "var/lib/trainyard/cluster-0001.json",
    "var/lib/trainyard/attempts/0001/exit",
)
USERS = (
    "home/ubuntu/notes.txt",
    "home/ubuntu/.bash_history",
    "root/.aws/credentials",
    "var/lib/trainyard/home/program/mine.py",
    "var/lib/trainyard/home/checkpoints/00000005/variables",
    "var/log/trainyard/attempt-0001-chief-0.log",
    "srv/table.csv",
)
KEPT_BY_BOTH = (
    "home/ubuntu/notes.txt",
    "srv/table.csv",
    "etc/ssh/sshd_config",
    "etc/trainyard/image.env",
    "opt/trainyard/recipe",
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    for name in {*IDENTITY, *AGENTS, *USERS, *KEPT_BY_BOTH}:
        put(tmp_path, name)
    put(tmp_path, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    return Paths(tmp_path)


def put(root: Path, name: str, text: str = "x") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def there(paths: Paths, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if (paths.root / name).exists()]


def test_a_host_keeps_its_files_and_loses_who_it_was(paths: Paths) -> None:
    generalize(paths, INSTANCE, depth="host")
    assert there(paths, IDENTITY) == there(paths, AGENTS) == []
    assert there(paths, (*USERS, *KEPT_BY_BOTH)) == [*USERS, *KEPT_BY_BOTH]
    assert paths.machine_id.read_text() == ""


def test_a_builder_leaves_nothing_of_its_making(paths: Paths) -> None:
    generalize(paths, INSTANCE, depth="builder")
    gone = tuple(name for name in (*IDENTITY, *AGENTS, *USERS) if name not in KEPT_BY_BOTH)
    assert there(paths, gone) == []
    assert there(paths, KEPT_BY_BOTH) == [*KEPT_BY_BOTH]
    assert [path.name for path in paths.work.iterdir()] == ["generalized"]


@pytest.mark.parametrize("depth", ["host", "builder"])
def test_sealing_twice_comes_to_the_same(paths: Paths, depth: str) -> None:
    generalize(paths, INSTANCE, depth=depth)
    assert generalize(paths, INSTANCE, depth=depth) == ([paths.generalized] if depth == "builder" else [])
    assert paths.generalized.read_text() == INSTANCE


def test_the_command_that_seals_and_others_under_way_keep_their_folders(paths: Paths) -> None:
    ssm = "var/lib/amazon/ssm/i-0aaa/document"
    own = put(paths.root, f"{ssm}/orchestration/22/awsrunShellScript/generalize/stdout")
    other = put(paths.root, f"{ssm}/orchestration/33/awsrunShellScript/x/stdout")
    put(paths.root, f"{ssm}/state/current/33")
    generalize(paths, INSTANCE, depth="builder", command="22")
    assert own.exists()
    assert other.exists()


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("home/ubuntu/run.sh", f"export AWS_ACCESS_KEY_ID={KEY}\n", "an access key of AWS"),
        ("root/.aws/config", "[default]\naws_secret_access_key = abc\n", "a secret access key"),
        ("etc/service/key.pem", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n", "a private key"),
        ("opt/trainyard/notes", f"key {KEY}\n", "an access key of AWS"),
    ],
)
def test_a_secret_that_the_bake_brought_is_named(paths: Paths, name: str, text: str, what: str) -> None:
    path = put(paths.root, name, text)
    with pytest.raises(HostTrouble, match="must not become an image") as caught:
        generalize(paths, INSTANCE, depth="builder")
    assert f"{path}: it contains {what}" in caught.value.reason


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("home/ubuntu/readme", "aws_access_key_id = AKIAIOSFODNN7EXAMPLE"),
        ("etc/ssl/private/snakeoil.key", "-----BEGIN PRIVATE KEY-----"),
        ("opt/trainyard/venv/lib/test.pem", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_what_only_looks_like_a_secret_is_none(paths: Paths, name: str, text: str) -> None:
    put(paths.root, name, text)
    generalize(paths, INSTANCE, depth="builder")


def test_a_users_secret_stays_on_a_users_host(paths: Paths) -> None:
    path = put(paths.root, "home/ubuntu/key.pem", "-----BEGIN PRIVATE KEY-----")
    generalize(paths, INSTANCE, depth="host")
    assert path.exists()


def test_what_the_base_image_carries_is_its_publishers(paths: Paths) -> None:
    put(paths.root, "etc/base.pem", "-----BEGIN PRIVATE KEY-----")
    put(paths.root, "proc/stat", f"cpu 1 2\nbtime {time.time() + 60:.0f}\n")
    generalize(paths, INSTANCE, depth="builder")


def test_what_cannot_be_removed_is_named(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = paths.root / "etc/ssh/ssh_host_ed25519_key"
    unlink = Path.unlink

    def refuses(path: Path, missing_ok: bool = False) -> None:
        if path == stuck:
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuses)
    with pytest.raises(HostTrouble, match="ssh_host_ed25519_key: it could not be removed"):
        generalize(paths, INSTANCE, depth="host")


# -------------------------------------------------------------------- disks that were imaged without generalizing


def identity(instance: str) -> Identity:
    return Identity(instance=instance, region="us-east-1", address="10.0.1.5", image="ami-1", tags={})


def test_the_first_agent_takes_the_disk_over_and_changes_nothing(paths: Paths) -> None:
    paths.owner.unlink()
    take_over(paths, identity(INSTANCE))
    assert owner(paths) == INSTANCE
    assert there(paths, (*AGENTS, *USERS)) == [*AGENTS, *USERS]
    assert paths.machine_id.read_text() == "0123456789abcdef0123456789abcdef\n"


def test_an_agent_that_starts_again_changes_nothing(paths: Paths) -> None:
    take_over(paths, identity(INSTANCE))
    put(paths.root, "run/trainyard/orders/start.json")
    put(paths.root, "var/lib/trainyard/state.json")
    take_over(paths, identity(INSTANCE))
    assert there(paths, AGENTS) == [*AGENTS]


def test_a_clone_of_a_host_that_was_not_sealed_becomes_its_own(paths: Paths) -> None:
    take_over(paths, identity(INSTANCE))
    put(paths.root, "var/lib/trainyard/generalized", INSTANCE)
    take_over(paths, identity("i-0bbb"))
    assert owner(paths) == "i-0bbb"
    assert there(paths, ("run/trainyard/orders/start.json", "var/lib/trainyard/state.json")) == []
    assert not paths.generalized.exists()
    assert there(paths, USERS) == [*USERS]
    assert paths.machine_id.read_text().strip() not in ("", "0123456789abcdef0123456789abcdef")


def test_a_machine_id_that_is_already_new_stays(paths: Paths) -> None:
    take_over(paths, identity(INSTANCE))
    paths.machine_id.write_text("f" * 32)
    take_over(paths, identity("i-0bbb"))
    assert paths.machine_id.read_text() == "f" * 32
    assert json.loads(paths.owner.read_text()) == {"instance": "i-0bbb", "machine": "f" * 32}


def test_a_sealed_host_stays_generalized(paths: Paths) -> None:
    generalize(paths, INSTANCE, depth="host")
    take_over(paths, identity(INSTANCE))
    assert paths.generalized.read_text() == INSTANCE
