"""Run a playbook for each of Ansible's EC2 modules in modules.yaml."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from scripts.local_yard import Cloud
from tests.interoperability.environment import installed
from tests.interoperability.result import Result, State

PACKAGES = ("ansible==12.3.0", "boto3", "botocore")
MODULES = Path(__file__).with_name("modules.yaml")
COLLECTION = "amazon.aws"
GROUND: list[dict[str, Any]] = [
    {f"{COLLECTION}.ec2_vpc_net": {"name": "ground", "cidr_block": "10.9.0.0/16"}, "register": "net"},
    {
        f"{COLLECTION}.ec2_vpc_subnet": {
            "vpc_id": "{{ net.vpc.id }}",
            "cidr": "10.9.1.0/24",
            "az": "us-east-1a",
        },
        "register": "subnet",
    },
]
FAILURE_LENGTH = 2000
PLAY_SECONDS = 600.0


def run(folder: Path, cloud: Cloud) -> list[Result]:
    program = installed(folder, *PACKAGES) / "ansible-playbook"
    image = cloud.session().client("ec2").describe_images()["Images"][0]["ImageId"]
    environment = os.environ | cloud.environment() | {
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
    }  # fmt: skip
    return [_played(program, folder, name, facts, image, environment)
            for name, facts in yaml.safe_load(MODULES.read_text()).items()]  # fmt: skip


def _played(
    program: Path,
    folder: Path,
    name: str,
    facts: Mapping[str, Any],
    image: str,
    environment: Mapping[str, str],
) -> Result:
    playbook = folder / f"{name}.yml"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": {"image": image,
            "ansible_python_interpreter": str(program.with_name("python"))}, "tasks": _tasks(name, facts)}  # fmt: skip
    playbook.write_text(yaml.safe_dump([play], sort_keys=False))
    command = [str(program), str(playbook)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=PLAY_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Result(name, name, State.FAILED, f"did not end within {PLAY_SECONDS:.0f} seconds")
    playbook.with_suffix(".log").write_text(done.stdout + done.stderr)
    if done.returncode == 0:
        return Result(name, name, State.PASSED)
    return Result(name, name, State.FAILED, _failure(done.stdout) or done.stderr[-FAILURE_LENGTH:])


def _tasks(name: str, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return tasks that create a resource twice, show it, and remove it twice."""
    module, info = f"{COLLECTION}.{name}", f"{COLLECTION}.{name}_info"
    shown = [
        {info: facts["info"], "register": "shown"},
        {"ansible.builtin.assert": {"that": [f"shown.{facts['shows']} | length > 0"]}},
    ]
    if "present" not in facts:
        return shown
    present = facts["present"]
    absent = dict(facts.get("absent", present), state="absent")
    again = [
        {module: present, "register": "again"},
        {"ansible.builtin.assert": {"that": ["made is changed", "again is not changed"]}},
    ]
    return [
        *GROUND,
        *facts.get("before", ()),
        {module: present, "register": "made"},
        *([] if facts.get("once") else again),
        *shown,
        {module: absent, "register": "removed"},
        {module: absent, "register": "gone"},
        {"ansible.builtin.assert": {"that": ["removed is changed", "gone is not changed"]}},
    ]


def _failure(output: str) -> str:
    """Return the message of the failed task."""
    try:
        plays = json.loads(output[output.index("{") :])["plays"]
    except (ValueError, KeyError):
        return output[-FAILURE_LENGTH:]
    for task in (each for play in plays for each in play["tasks"]):
        answer = task["hosts"].get("localhost", {})
        if answer.get("failed"):
            message = answer.get("msg") or answer.get("exception") or ""
            what = answer.get("assertion", answer.get("evaluated_to", ""))
            return f"{task['task']['name']}: {message} {what}".strip()
    return output[-FAILURE_LENGTH:]
