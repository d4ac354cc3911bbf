"""The life of a dev host: up, denied to other users, down, back with its files also in another zone, deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.users import done, person
from tests.e2e.watch import ec2
from trainyard.client.dev import hosts

Environment = Mapping[str, str]
MINE: Any = [{"Name": "tag:trainyard:dev", "Values": ["mine"]}]


def test_a_dev_host_is_its_owners_and_keeps_its_files(runs: Runs) -> None:
    with person(runs, "user", "alice") as alice, person(runs, "user", "bob") as bob:
        host = it_comes_up_by_steps_with_its_price(alice)
        assert [each["Size"] for each in disks(runs)] == [150]
        kept = "cat ~/notes.txt"
        assert done(alice, "dev", "shell", "mine", "--", "echo kept > ~/notes.txt")[0] == 0
        a_command_and_a_piped_script_run_as_in_a_shell(alice)
        nobody_else_gets_at_it(runs, bob, host)
        with person(runs, "viewer", "eve") as eve:
            (seen,) = listed(eve)
            assert (seen["owner"], seen["state"]) == ("alice", "running")
            denied(eve, "shell", "mine", "--", "true")
            denied(eve, "down", "mine")
        nobody_names_or_images_it_by_hand(runs, bob, host)

        code, out, err = done(alice, "dev", "down", "mine")
        assert code == 0, err
        assert "a month" in out
        assert listed(alice)[0]["state"] == "stopped"
        code, _, err = done(alice, "dev", "shell", "mine", "--", "true")
        assert code == 3
        assert "trainyard dev up mine" in err
        assert up(alice)["instance"] == host
        assert done(alice, "dev", "shell", "mine", "--", kept)[1] == "kept\n"

        assert done(alice, "dev", "down", "mine")[0] == 0
        (stopped,) = listed(alice)
        runs.cloud.fault("refuse", "*", stopped["zone"], "on_demand")
        moved = up(alice)
        assert moved["instance"] != host
        assert moved["zone"] != stopped["zone"]
        assert done(alice, "dev", "shell", "mine", "--", kept)[1] == "kept\n"
        runs.cloud.fault("clear")

        assert done(alice, "dev", "down", "mine", "--keep", "nothing")[0] == 2
        assert done(alice, "dev", "down", "mine", "--keep", "nothing", "--yes")[0] == 0
        nothing_is_left(runs, alice)
        code, _, err = done(alice, "dev", "down", "mine")
        assert code == 4, err


def it_comes_up_by_steps_with_its_price(alice: Environment) -> str:
    given = ("dev", "up", "mine", "--type", "g6.xlarge", "--hours", "2", "--disk")
    code, _, err = done(alice, *given, "20")
    assert code == 3, err
    assert "disk_gib: found 20; the root disk of the image" in err
    code, out, err = done(alice, *given, "150")
    assert code == 0, err
    assert "mine is up: g6.xlarge in us-east-1" in out
    assert "on demand" in out
    assert "an hour" in out
    assert "a month" in err
    assert len([line for line in err.splitlines() if " s  " in line]) > 3, err
    (host,) = listed(alice)
    assert host["per_month"] > host["per_hour"] > 0.5
    return str(host["place"])


def a_command_and_a_piped_script_run_as_in_a_shell(alice: Environment) -> None:
    code, out, err = done(alice, "dev", "shell", "mine", "--", "pwd; command -v python; echo $0 $HOME")
    folder, python, *names = out.split()
    assert (code, folder, names) == (0, names[-1], ["/bin/bash", folder]), err
    code, version, err = done(
        alice, "dev", "shell", "mine", "--", "python -c 'import tensorflow as tf; print(tf.__version__)'"
    )
    assert (code, version[:2]) == (0, "2."), f"{python}: {err}"
    code, out, err = done(alice, "dev", "shell", "mine", piped="cd /tmp\necho piped into $PWD\nexit 7\n")
    assert "piped into /tmp" in out, err


def nobody_else_gets_at_it(runs: Runs, bob: Environment, host: str) -> None:
    for given in (
        ("shell", "mine", "--", "true"),
        ("forward", "mine", "8123:0"),
        ("down", "mine"),
        ("up", "mine"),
    ):
        err = denied(bob, *given)
        assert "alice's" in err, err
    denied(bob, "down", "mine", "--keep", "image")
    denied(bob, "down", "mine", "--keep", "nothing", "--yes")
    code, _, err = done(bob, "hold", host, "1h")
    assert code == 5, err
    (found,) = hosts.hosts(runs.yard)
    assert (found.state, found.owner) == ("running", "alice")


def nobody_names_or_images_it_by_hand(runs: Runs, bob: Environment, host: str) -> None:
    for workflow, asked in (
        ("dev-host", {"dev": "mine"}),
        ("snapshot", {"instance": host, "then": "terminate"}),
    ):
        run = runs.yard.start(workflow, asked).wait(PATIENCE, every=0.5)
        assert run.summary["outcome"] == "refused", run.why()
    assert hosts.find(runs.yard, "mine").instance == host


def nothing_is_left(runs: Runs, alice: Environment) -> None:
    runs.until("its host is gone", lambda: not runs.living())
    assert listed(alice) == []
    assert hosts.images(runs.yard) == []
    runs.until("its disk is gone", lambda: not disks(runs))
    assert ec2(runs).describe_snapshots(OwnerIds=["self"], Filters=MINE)["Snapshots"] == []


def disks(runs: Runs) -> Sequence[Any]:
    found: Sequence[Any] = ec2(runs).describe_volumes(Filters=MINE)["Volumes"]
    return found


def up(who: Environment) -> dict[str, Any]:
    code, out, err = done(who, "dev", "up", "mine", "-o", "json")
    assert code == 0, err
    return dict(json.loads(out))


def listed(who: Environment) -> list[dict[str, Any]]:
    code, out, err = done(who, "dev", "ls", "-o", "json")
    assert code == 0, err
    return list(json.loads(out))


def denied(who: Environment, *given: str) -> str:
    code, _, err = done(who, "dev", *given)
    assert code == 5, f"{given}: {code} {err}"
    return err
