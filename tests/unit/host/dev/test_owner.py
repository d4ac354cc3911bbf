"""The files on a dev host with the owner's credentials."""

import json
import os
import pwd
from pathlib import Path

import boto3
import pytest

from training.host import account
from training.host.dev import owner
from training.host.metadata import Identity
from training.host.paths import Paths
from trainyard.cli.options import Options

IDENTITY = Identity("i-dev", "eu-west-1", "10.0.0.4", "ami-1", {"trainyard:yard": "lab"})
GIVEN = {
    "Version": 1,
    "AccessKeyId": "ASIA1",
    "SecretAccessKey": "s",
    "SessionToken": "t",
    "Expiration": "2099-01-01T00:00:00Z",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def configured(home: Path) -> Paths:
    me = pwd.getpwuid(os.geteuid())
    entry = pwd.struct_passwd((me.pw_name, "x", me.pw_uid, me.pw_gid, "", str(home), "/bin/sh"))
    paths = Paths(home / "host")
    paths.run.mkdir(parents=True, exist_ok=True)
    owner.configure(paths, IDENTITY, entry, account.own())
    return paths


def test_boto3_and_the_client_find_credentials_region_and_yard(home: Path) -> None:
    configured(home).credentials.write_text(json.dumps(GIVEN))
    session = boto3.Session()
    found = session.get_credentials()
    assert found
    assert (found.access_key, session.region_name) == ("ASIA1", "eu-west-1")
    assert Options().complete({}, home, home).yard == "lab"


def test_what_people_have_set_up_there_stays(home: Path) -> None:
    (home / ".aws").mkdir()
    (home / ".aws/config").write_text("[default]\nregion = us-west-2\n")
    (home / ".config/trainyard").mkdir(parents=True)
    (home / ".config/trainyard/config.toml").write_text('yard = "mine"\n')
    configured(home)
    assert boto3.Session().region_name == "us-west-2"
    assert Options().complete({}, home, home).yard == "mine"
