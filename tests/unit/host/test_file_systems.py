"""File systems on a host: the commands that mount them, and a file system that does not answer."""

import json
from pathlib import Path

import pytest

from training.host.errors import HostTrouble
from training.host.mounts.file_systems import keep_credentials, mount_of
from training.host.mounts.mounting import Mount, Probe, mount
from training.host.paths import Paths
from trainyard.core.model.program import Data
from trainyard.protocol.file_systems import Access, FileSystem

ZONE, REGION = "us-east-1a", "us-east-1"
POINT = "fsap-0123456789abcdef0"


def test_efs_is_mounted_by_tls_with_the_runs_credentials_through_its_access_point(tmp_path: Path) -> None:
    system = FileSystem(addresses={ZONE: "10.0.0.4"}, access_point=POINT, groups=("sg-1",))
    data = Data(source="efs://fs-0123456789abcdef0/team/", access=Access.WRITE, file_system=system)
    made = mount_of("shared", data, ZONE, REGION, Paths(tmp_path))
    command, source, path, flag, options = made.command
    assert (command, source, flag) == ("mount.efs", "fs-0123456789abcdef0:/team/", "-o")
    assert path == str(tmp_path / "var/lib/trainyard/mounts/shared/files")
    expected = ["rw", "tls", "iam", "awsprofile=trainyard-run", "region=us-east-1", "mounttargetip=10.0.0.4"]
    assert options.split(",") == [*expected, f"accesspoint={POINT}"]
    assert made.is_written
    assert made.probe
    assert {"soft", "timeo=50", "retrans=1"} <= set(made.probe.command[4].split(","))


def test_lustre_is_mounted_by_its_name_and_read_only_by_default(tmp_path: Path) -> None:
    system = FileSystem(addresses={ZONE: "fs-1.fsx.us-east-1.amazonaws.com"}, mount_name="abcdefgh")
    data = Data(source="fsx://fs-0fedcba9876543210/a/", file_system=system)
    made = mount_of("fast", data, ZONE, REGION, Paths(tmp_path))
    assert made.command[:4] == [
        *("mount.lustre", "-o", "ro,noatime,flock"),
        "fs-1.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh/a",
    ]
    assert not made.is_written


def test_a_host_in_a_zone_without_a_mount_target_says_so(tmp_path: Path) -> None:
    data = Data(source="efs://fs-0123456789abcdef0/", file_system=FileSystem(addresses={ZONE: "10.0.0.4"}))
    with pytest.raises(HostTrouble, match="has no mount target in us-east-1b, where this host is"):
        mount_of("shared", data, "us-east-1b", REGION, Paths(tmp_path))


def test_a_file_system_that_does_not_answer_is_a_failed_start(tmp_path: Path) -> None:
    system = FileSystem(addresses={ZONE: "10.0.0.4"}, groups=("sg-1",))
    data = Data(source="efs://fs-0123456789abcdef0/", file_system=system)
    silence = mount_of("shared", data, ZONE, REGION, Paths(tmp_path)).probe
    assert silence
    assert "does not answer at 10.0.0.4, TCP 2049, within 10 s. The inbound rules of sg-1" in silence.silence
    waits = Probe(command=["sh", "-c", "sleep 600 & sleep 600"], seconds=0.2, silence=silence.silence)
    wanted = Mount(label="data.shared", source="", path=tmp_path / "files", command=["true"], probe=waits)
    with pytest.raises(HostTrouble, match=r"does not answer at 10\.0\.0\.4") as trouble:
        mount(wanted)
    assert not trouble.value.final


def test_a_refused_mount_has_the_last_line_of_the_command(tmp_path: Path) -> None:
    fails = Probe(command=["sh", "-c", "echo denied by server >&2; exit 32"], seconds=30, silence="")
    wanted = Mount(
        label="data.shared", source="efs://fs-1/", path=tmp_path / "files", command=["true"], probe=fails
    )
    with pytest.raises(
        HostTrouble, match=r"data\.shared: efs://fs-1/ could not be mounted: denied by server"
    ):
        mount(wanted)


def test_an_image_without_the_command_names_the_recipe(tmp_path: Path) -> None:
    system = FileSystem(addresses={ZONE: "10.0.0.4"})
    data = Data(source="efs://fs-0123456789abcdef0/", file_system=system)
    remedy = mount_of("shared", data, ZONE, REGION, Paths(tmp_path)).remedy
    wanted = Mount(
        label="data.shared", source="", path=tmp_path / "x", command=["mount.nothing"], remedy=remedy
    )
    with pytest.raises(HostTrouble, match=r"no mount.nothing.*recipe with file_systems: \[efs\]") as trouble:
        mount(wanted)
    assert trouble.value.final


def test_the_runs_credentials_are_where_the_helper_reads_them(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.credentials.parent.mkdir(parents=True)
    keys = {"AccessKeyId": "AKIA", "SecretAccessKey": "secret", "SessionToken": "token"}
    paths.credentials.write_text(json.dumps(keys))
    keep_credentials(paths)
    expected = "[trainyard-run]\naws_access_key_id = AKIA\naws_secret_access_key = secret\naws_session_token = token\n"
    assert paths.root_credentials.read_text() == expected
    assert paths.root_credentials.stat().st_mode & 0o777 == 0o600
