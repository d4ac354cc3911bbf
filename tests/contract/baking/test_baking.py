"""SSM documents of a bake on a host of the local cloud: objects, files and the last line of each."""

import json
import os
import threading

import pytest

from tests.contract.baking.conftest import Bakery, Done

NEEDS_ROOT = {"account_of_programs"}
"""Hosts of an ordinary user's local cloud have one account only."""
AS_ROOT = os.geteuid() == 0
SKIPPED = {"driver", "tensorflow_gpus", "cuda", "cloudwatch_agent", "gpu_metrics", "jupyter"} | (
    set() if AS_ROOT else NEEDS_ROOT
)
"""Tests that need a GPU or JupyterLab, which hosts of the local cloud lack."""
PASSED = {
    "matmul", "tensorflow", "ssm_agent", "disk", "host_agent", "two_processes",
} | (NEEDS_ROOT if AS_ROOT else set())  # fmt: skip


@pytest.mark.parametrize(
    ("run", "keys", "told"),
    [
        (
            "no-package",
            {"python_packages": ["rich", "nosuchpackage==1.0"]},
            'python_packages[1] "nosuchpackage==1.0": No solution found when resolving dependencies: Because',
        ),
        (
            "pinned",
            {"python_packages": ["numpy<2"]},
            'python_packages[0] "numpy<2" conflicts with numpy==2.4.6, which Trainyard pins in every image',
        ),
        (
            "no-system-package",
            {"system_packages": ["nosuchpackage"]},
            'system_packages[0] "nosuchpackage": E: Unable to locate package nosuchpackage',
        ),
        (
            "command",
            {"commands": ["echo first", "echo it is broken >&2; exit 3", "echo never"]},
            'commands[1] "echo it is broken >&2; exit 3" failed (exit code 3): it is broken',
        ),
    ],
)
def test_the_entry_of_the_recipe_that_fails_is_named(
    bakery: Bakery, builder: str, run: str, keys: dict[str, list[str]], told: str
) -> None:
    bakery.recipe(run, **keys)
    done = bakery.install(builder, run)
    assert done.status == "Failed"
    assert told in done.stdout.splitlines()[-1]
    assert told in done.stderr
    assert told in bakery.log(run)[-1]
    assert "never" not in bakery.log(run)


def test_a_document_that_is_delivered_twice_does_its_work_once(bakery: Bakery, builder: str) -> None:
    bakery.recipe("twice", commands=["echo one more >> /root/done"])
    ended: list[Done] = []
    deliveries = [
        threading.Thread(target=lambda: ended.append(bakery.install(builder, "twice"))) for _ in range(2)
    ]
    for delivery in deliveries:
        delivery.start()
    for delivery in deliveries:
        delivery.join()
    assert [done.status for done in ended] == ["Success", "Success"], ended
    assert bakery.hosts.run(builder, "cat /root/done") == "one more"


@pytest.mark.parametrize("action", ["s3:PutObject", "s3:GetObject"])
def test_a_missing_permission_is_named(bakery: Bakery, action: str) -> None:
    """Test each permission. GetObject of the software runs in the shell, with botocore's message."""
    bakery.recipe("denied")
    done = bakery.install(bakery.builder(action), "denied")
    assert done.status == "Failed"
    assert action.removeprefix("s3:") in done.stderr


def test_a_recipe_that_is_not_there_is_named(bakery: Bakery, builder: str) -> None:
    done = bakery.install(builder, "unwritten")
    assert done.status == "Failed"
    assert "runs/unwritten/recipe.json does not exist" in done.stderr


def test_a_recipe_that_somebody_has_written_over_is_not_run(bakery: Bakery, builder: str) -> None:
    """Test an overwritten recipe. Earlier versions let a run's program write it."""
    bakery.recipe("poisoned", commands=["echo fine"])
    bakery.put(
        "runs/poisoned/recipe.json", bakery.recipes["poisoned"].replace("echo fine", "touch /root/theirs")
    )
    for done in (bakery.install(builder, "poisoned"), bakery.test(builder, "poisoned")):
        assert done.status == "Failed"
        assert "recipe.json has changed since the bake was admitted" in done.stderr
    assert bakery.hosts.run(builder, "ls /root | grep theirs || echo nothing") == "nothing"


def test_every_test_is_run_and_the_failed_ones_are_named(bakery: Bakery, builder: str) -> None:
    lines = ["python -c 'import rich'", "echo too old >&2; exit 4", "true"]
    bakery.recipe("failing", tensorflow=">=2.99", python_packages=["rich"], tests=lines)
    assert bakery.install(builder, "failing").status == "Success"
    done = bakery.test(builder, "failing")
    assert done.status == "Failed"
    found = {result["name"]: result for result in json.loads(bakery.read("runs/failing/tests.json"))["tests"]}
    assert {name for name, result in found.items() if result["outcome"] == "skipped"} == SKIPPED
    assert {name for name, result in found.items() if result["outcome"] == "failed"} == {
        "tensorflow",
        "tests[1]",
    }
    last = done.stdout.splitlines()[-1]
    assert "2 of 16 tests failed: tensorflow: TensorFlow is 2.21.0, but the recipe requires >=2.99" in last
    assert 'tests[1]: "echo too old >&2; exit 4" failed (exit code 4): too old' in last
    assert last.removeprefix("[trainyard] ") in done.stderr


def test_a_baked_builder_becomes_an_image_without_a_past(bakery: Bakery, builder: str) -> None:
    bakery.recipe("whole", tensorflow="~=2.21.0", cuda=">=12", commands=["echo yes > /srv/mine"])
    assert bakery.install(builder, "whole").status == "Success"
    done = bakery.test(builder, "whole")
    assert done.status == "Success", done
    found = json.loads(bakery.read("runs/whole/tests.json"))
    assert {result["name"] for result in found["tests"] if result["outcome"] == "passed"} == PASSED
    listed = {each["name"]: each for each in json.loads(bakery.read("runs/whole/sbom.json"))["components"]}
    assert {"tensorflow-cpu", "keras", "numpy", "trainyard"} <= listed.keys()
    assert listed["tensorflow-cpu"]["purl"] == "pkg:pypi/tensorflow-cpu@2.21.0"
    assert {key: found[key] for key in found if key != "tests"} == {
        "driver": "none",
        "cuda": "none",
        "tensorflow": "2.21.0",
        "architecture": "x86_64",
    }
    bakery.hosts.run(
        builder,
        "mkdir -p /root/.aws /etc/ssh && echo x > /root/.aws/credentials && echo x > /etc/ssh/ssh_host_rsa_key",
        "echo secret > /root/.bash_history && echo 0123456789abcdef0123456789abcdef > /etc/machine-id",
    )
    assert bakery.generalize(builder, "builder").status == "Success"
    host = bakery.start(ImageId=bakery.image_of(builder))
    bakery.hosts.run(host, "until [ -f /etc/trainyard/host.json ]; do sleep 0.1; done")
    assert bakery.hosts.run(host, "cat /opt/trainyard/recipe /srv/mine") == "0123456789abcdef\nyes"
    assert bakery.hosts.run(host, "systemctl is-enabled trainyard-host") == "enabled"
    gone = (
        "/root/.aws/credentials /root/.bash_history /etc/ssh/ssh_host_rsa_key /var/log/trainyard/builder.log"
    )
    assert (
        bakery.hosts.run(host, f"ls {gone} 2>/dev/null || true; cat /etc/machine-id; ls /var/lib/trainyard")
        == ""
    )


def test_a_builder_with_a_secret_is_not_generalized(bakery: Bakery, builder: str) -> None:
    bakery.recipe("secret")
    assert bakery.install(builder, "secret").status == "Success"
    bakery.hosts.run(builder, "echo key=AKIAABCDEFGH12345678 > /etc/forgotten.conf")
    done = bakery.generalize(builder, "builder")
    bakery.hosts.run(builder, "rm /etc/forgotten.conf")
    assert done.status == "Failed"
    assert "/etc/forgotten.conf: it contains an access key of AWS" in done.stderr


def test_a_clone_of_a_host_that_went_on_is_a_host_of_its_own(bakery: Bakery, builder: str) -> None:
    """Test a snapshot without generalizing: it has the files, but a new identity."""
    bakery.recipe("clone")
    assert bakery.install(builder, "clone").status == "Success"
    bakery.hosts.run(
        builder,
        "systemctl restart trainyard-host",
        "until [ -f /etc/trainyard/host.json ]; do sleep 0.1; done",
        "echo 0123456789abcdef0123456789abcdef > /etc/machine-id && rm /etc/trainyard/host.json",
        "systemctl restart trainyard-host",
        "until [ -f /etc/trainyard/host.json ]; do sleep 0.1; done",
        "echo mine > /srv/notes && mkdir -p /var/lib/trainyard/program",
        "echo code > /var/lib/trainyard/program/mine.py",
    )
    host = bakery.start(ImageId=bakery.image_of(builder))
    owner = bakery.hosts.run(
        host, f"until grep -q {host} /etc/trainyard/host.json; do sleep 0.1; done; echo {host}"
    )
    assert owner == host
    assert bakery.hosts.run(host, "cat /srv/notes /var/lib/trainyard/program/mine.py") == "mine\ncode"
    assert bakery.hosts.run(host, "cat /etc/machine-id") not in ("", "0123456789abcdef0123456789abcdef")
