"""`mount-s3` on a host shows objects of S3 as files, with the credentials of its caller."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from localcloud.machine.hypervisor import mounts
from tests.contract.conftest import Cloud, Credentials, allow
from tests.contract.hosts.conftest import Hosts, unique

pytestmark = pytest.mark.skipif(mounts.missing() is not None, reason=f"no FUSE here: {mounts.missing()}")
FOLDER, LOG = "/srv/data", "/srv/log"
BIG = bytes(range(256)) * (40 * 1024)
"""10 MiB, more than one part."""
UNMOUNT = f"umount {FOLDER} || true; rm -rf {FOLDER} {LOG}; mkdir -p {FOLDER}"


@pytest.fixture(scope="module")
def bucket(cloud: Cloud) -> str:
    """Return a bucket with a folder `train/` of three objects, and an object beside it."""
    name, s3 = unique("streamed"), cloud.client("s3")
    s3.create_bucket(Bucket=name)
    for key, body in (
        ("train/a.bin", BIG),
        ("train/b.txt", b"two"),
        ("train/deep/c d.txt", b"three"),
        ("other/x", b"no"),
    ):
        s3.put_object(Bucket=name, Key=key, Body=body)
    return name


@pytest.fixture(scope="module")
def host(cloud: Cloud) -> Iterator[tuple[Hosts, str]]:
    """Return a host for all tests of this module."""
    role = cloud.role("ec2.amazonaws.com", allow("ssm:*")).rpartition("/")[2]
    iam = cloud.client("iam")
    iam.create_instance_profile(InstanceProfileName=role)
    iam.add_role_to_instance_profile(InstanceProfileName=role, RoleName=role)
    hosts = Hosts(cloud, role)
    yield hosts, hosts.one()
    hosts.terminate_all()


def stored(who: Credentials, until: str = "2099-01-01T00:00:00Z") -> str:
    """Return a shell line that writes these credentials to where mounts read them."""
    keys = {
        "Version": 1,
        "AccessKeyId": who.key,
        "SecretAccessKey": who.secret,
        "SessionToken": who.token or "",
        "Expiration": until,
    }
    return (
        f"echo {shlex.quote(json.dumps(keys))} > /srv/keys.json.new && mv /srv/keys.json.new /srv/keys.json"
    )


def mounted(
    bucket: str, who: Credentials, *options: str, prefix: str = "train/", until: str = "2099-01-01T00:00:00Z"
) -> str:
    """Return shell lines that mount the folder with these credentials."""
    config = "[default]\ncredential_process = /bin/cat /srv/keys.json\n"
    words = ["mount-s3", bucket, FOLDER, "--read-only", "--allow-other", "--prefix", prefix]
    words += ["--log-directory", LOG, "--log-metrics", *options]
    return "\n".join(
        (
            UNMOUNT,
            stored(who, until),
            f"printf %s {shlex.quote(config)} > /srv/config",
            f"AWS_CONFIG_FILE=/srv/config {shlex.join(words)} 2>&1",
        )
    )


def test_a_program_without_rights_lists_and_reads_the_objects_and_changes_none(
    host: tuple[Hosts, str], bucket: str, cloud: Cloud
) -> None:
    hosts, name = host
    said = hosts.run(
        name,
        mounted(bucket, cloud.root),
        f"cd {FOLDER} && find . | sort | tr '\\n' ' ' && cat b.txt 'deep/c d.txt' && stat -c ' %s' a.bin",
        f"sha256sum < {FOLDER}/a.bin && tail -c 300 {FOLDER}/a.bin | wc -c",
        f"touch {FOLDER}/new 2>&1 || true",
        f"ls {FOLDER}/no 2>&1 || true",
        f"umount {FOLDER}",
    )
    assert f"bucket {bucket} is mounted at {FOLDER}" in said
    assert ". ./a.bin ./b.txt ./deep ./deep/c d.txt twothree 10485760" in said
    assert "Read-only file system" in said
    assert "No such file or directory" in said
    gets, logged = 0, ""
    for _ in range(30):  # the server of the mount writes its last line after `umount` has ended
        logged = hosts.run(name, f"cat {LOG}/*.log")
        gets = sum(int(line.rpartition(": ")[2]) for line in logged.splitlines() if "GetObject" in line)
        if gets >= 2 + 1 + 2:
            break
    assert gets == 2 + 1 + 2, logged


def test_a_caller_without_permission_is_refused_with_its_reason(
    host: tuple[Hosts, str], bucket: str, cloud: Cloud
) -> None:
    hosts, name = host
    nobody = cloud.acting_as(allow("s3:ListBucket", "arn:aws:s3:::another"))
    said = hosts.run(name, f"{mounted(bucket, nobody)} || true")
    assert "Error: initial ListObjectsV2 failed for bucket" in said
    assert "Forbidden" in said


def test_a_mount_reads_new_credentials_when_its_own_expire(
    host: tuple[Hosts, str], bucket: str, cloud: Cloud
) -> None:
    hosts, name = host
    arn = f"arn:aws:s3:::{bucket}"
    first = cloud.acting_as(allow("s3:ListBucket", arn), allow("s3:GetObject", f"{arn}/train/b.txt"))
    second = cloud.acting_as(allow("s3:ListBucket", arn), allow("s3:GetObject", f"{arn}/train/*"))
    soon = datetime.now(UTC) + timedelta(minutes=1)  # so near to their end, they are read again
    said = hosts.run(
        name,
        mounted(bucket, first, until=soon.strftime("%Y-%m-%dT%H:%M:%SZ")),
        f"cat {FOLDER}/b.txt; cat '{FOLDER}/deep/c d.txt' 2>&1 || true",
        stored(second),
        f"cat '{FOLDER}/deep/c d.txt'; umount {FOLDER}",
    )
    assert "two" in said
    assert "Input/output error" in said
    assert said.endswith("three"), said


def test_readers_of_a_mount_that_died_get_an_error_at_once(
    host: tuple[Hosts, str], bucket: str, cloud: Cloud
) -> None:
    hosts, name = host
    said = hosts.run(
        name,
        mounted(bucket, cloud.root),
        f"cat {FOLDER}/b.txt; pkill -KILL -f 'main\\(\\) mount-s3'; sleep 1",
        f"timeout 20 cat {FOLDER}/b.txt 2>&1 || true",
        f"umount {FOLDER} && ls {FOLDER} | wc -l",
    )
    assert "Transport endpoint is not connected" in said
    assert said.endswith("0"), said


def test_an_object_that_changes_while_it_is_read_is_an_error_with_its_name(
    host: tuple[Hosts, str], bucket: str, cloud: Cloud
) -> None:
    hosts, name = host
    cloud.client("s3").put_object(Bucket=bucket, Key="changed/big.bin", Body=BIG)
    hosts.run(name, mounted(bucket, cloud.root, prefix="changed/"))
    command = hosts.send(
        [name],
        f"exec 3< {FOLDER}/big.bin; head -c 1000 <&3 | wc -c; touch /srv/begun",
        "until test -e /srv/changed; do sleep 0.1; done",
        "tail -c 100 <&3 2>&1 | wc -c",
        f"tail -c 100 {FOLDER}/big.bin | wc -c; cat {LOG}/*.log",
    )
    hosts.run(name, "until test -e /srv/begun; do sleep 0.1; done")
    cloud.client("s3").put_object(Bucket=bucket, Key="changed/big.bin", Body=BIG[::-1])
    hosts.run(name, "touch /srv/changed")
    said = str(hosts.over(command, name)["StandardOutputContent"])
    assert 'name="big.bin"' in said
    assert "read failed with errno 116: object was mutated remotely" in said


def test_a_cache_serves_the_next_pass_without_a_request_and_stays_within_its_size(
    host: tuple[Hosts, str], bucket: str, cloud: Cloud
) -> None:
    hosts, name = host
    count = f"cat {LOG}/*.log | grep -o 'GetObject.*' | tr '\\n' ' '"
    said = hosts.run(
        name,
        mounted(bucket, cloud.root, "--cache", "/srv/cache", "--max-cache-size", "16"),
        f"for pass in 1 2 3; do cat {FOLDER}/a.bin {FOLDER}/b.txt > /dev/null; done",
        f"du -sm /srv/cache | cut -f1; umount {FOLDER}; sleep 1; {count}; ls /srv/cache",
    )
    assert "GetObject]: 3" in said, said


def test_a_program_that_is_not_root_mounts_nothing(
    host: tuple[Hosts, str], bucket: str, cloud: Cloud
) -> None:
    hosts, name = host
    said = hosts.run(name, "umount /proc 2>&1 || true; umount /nowhere 2>&1 || true")
    assert "umount: /nowhere" in said
