"""Functions: environment, permissions, and error reports."""

from __future__ import annotations

import io
import json
import os
import sys
import uuid
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import markupsafe
import pytest

from localcloud.base import root_key
from tests.contract.conftest import ACCOUNT, DECOY, REGION, Cloud, allow, eventually, packed

STARTS_AT_ONCE = 2 * len(os.sched_getaffinity(0))
TOGETHER = 3 * STARTS_AT_ONCE


def invoke(cloud: Cloud, function: str, event: Any = None) -> tuple[Any, str | None]:
    """Return the payload and the kind of error, if any."""
    answer = cloud.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event))
    return json.load(answer["Payload"]), answer.get("FunctionError")


def test_an_error_keeps_its_class_message_and_stack(cloud: Cloud) -> None:
    function = cloud.function(
        """
        class NoSuchJob(LookupError):
            pass

        def handler(event, context):
            raise NoSuchJob("jobs/x.yaml is gone")
        """
    )
    payload, error = invoke(cloud, function)
    assert error == "Unhandled"
    assert (payload["errorType"], payload["errorMessage"]) == ("NoSuchJob", "jobs/x.yaml is gone")
    assert any("raise NoSuchJob" in frame for frame in payload["stackTrace"])


def test_a_module_that_cannot_be_imported_says_so(cloud: Cloud) -> None:
    payload, error = invoke(cloud, cloud.function("import no_such_package"))
    assert error
    assert payload["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'no_such_package'" in payload["errorMessage"]


def test_a_function_has_none_of_the_packages_that_are_installed_on_the_machine(cloud: Cloud) -> None:
    function = cloud.function(
        f"""
        import importlib.util, sys

        def handler(event, context):
            folders = [each for each in sys.path if each.endswith(("site-packages", "dist-packages"))]
            return [folders, bool(importlib.util.find_spec({DECOY!r}))]
        """
    )
    assert invoke(cloud, function) == ([[], False], None)


def test_a_function_that_takes_too_long_is_ended(cloud: Cloud) -> None:
    function = cloud.function("import time\ndef handler(event, context): time.sleep(9)", Timeout=1)
    payload, _ = invoke(cloud, function)
    assert payload["errorType"] == "Sandbox.Timedout"
    assert "Task timed out after 1.00 seconds" in payload["errorMessage"]


def test_functions_start_a_few_at_a_time_and_give_way_to_the_endpoint(cloud: Cloud) -> None:
    bucket = f"together-{uuid.uuid4().hex[:12]}"
    cloud.client("s3").create_bucket(Bucket=bucket)
    function = cloud.function(
        f"""
        import boto3, os, time

        began = time.monotonic()
        time.sleep(0.5)
        started = time.monotonic()

        def handler(event, context):
            s3 = boto3.client("s3")
            s3.put_object(Bucket={bucket!r}, Key=context.aws_request_id)
            while s3.list_objects_v2(Bucket={bucket!r})["KeyCount"] < {TOGETHER}:
                time.sleep(0.1)
            return began, started, os.nice(0)
        """,
        allow("s3:*"),
        Timeout=300,
    )
    with ThreadPoolExecutor(TOGETHER) as people:
        answers = [payload for payload, _ in people.map(lambda _: invoke(cloud, function), range(TOGETHER))]
    starting = [sum(began <= each[0] < started for began, started, _ in answers) for each in answers]
    assert max(starting) <= STARTS_AT_ONCE
    assert {nice for *_, nice in answers} == {min(os.nice(0) + 5, 19)}


def test_a_process_that_dies_is_reported(cloud: Cloud) -> None:
    payload, _ = invoke(cloud, cloud.function("import os\ndef handler(event, context): os._exit(3)"))
    assert payload["errorType"] == "Runtime.ExitError"


def test_prints_of_a_function_and_of_its_children_reach_the_log_not_the_answer(cloud: Cloud) -> None:
    function = cloud.function(
        """
        import subprocess

        def handler(event, context):
            print("from python")
            subprocess.run(["echo", "from a child"])
            return {"status": "ok"}
        """
    )
    assert invoke(cloud, function) == ({"status": "ok"}, None)
    logs = cloud.client("logs")

    def messages() -> str:
        found = logs.filter_log_events(logGroupName=f"/aws/lambda/{function}")["events"]
        return "".join(event["message"] for event in found)

    eventually(
        lambda: "from python" in messages() and "from a child" in messages() and "REPORT" in messages()
    )


def test_the_report_says_how_much_memory_was_used(cloud: Cloud) -> None:
    name = cloud.function("kept = []\ndef handler(event, context): kept.append(bytearray(64 * 1024 * 1024))")
    cloud.client("lambda").invoke(FunctionName=name, Payload="{}")
    logs, wanted = cloud.client("logs"), {"logGroupName": f"/aws/lambda/{name}", "filterPattern": "REPORT"}
    [report] = eventually(lambda: logs.filter_log_events(**wanted)["events"])
    used = int(report["message"].partition("Max Memory Used: ")[2].split()[0])
    assert 64 < used < 256


def test_a_function_sees_its_own_environment_and_nothing_of_the_servers(cloud: Cloud) -> None:
    function = cloud.function(
        "import os\ndef handler(event, context): return dict(os.environ)",
        Environment={"Variables": {"MINE": "yes"}},
    )
    environment, _ = invoke(cloud, function)
    assert environment["MINE"] == "yes"
    assert environment["AWS_ENDPOINT_URL"] == cloud.endpoint
    assert environment["AWS_REGION"] == REGION
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == function
    assert environment["AWS_ACCESS_KEY_ID"].startswith("ASIA")
    leaks = {
        "AUTH",
        "STATE_DIR",
        "S3_DATA_DIR",
        "GATEWAY_PORT",
        "LOCALCLOUD_LOG",
        "AWS_PROFILE",
        "AWS_CA_BUNDLE",
    }
    assert not leaks & set(environment)
    assert not [name for name in environment if name.startswith(("MINISTACK", "MOTO", "PIP_"))]


def test_a_function_has_the_runtimes_packages_and_not_the_servers(cloud: Cloud) -> None:
    function = cloud.function(
        """
        from importlib.util import find_spec

        def handler(event, context):
            return {name: find_spec(name) is not None for name in event}
        """
    )
    found, _ = invoke(
        cloud, function, ["boto3", "moto", "ministack", "attrs", "yaml", "aws_lambda_powertools"]
    )
    assert [name for name, there in found.items() if there] == ["boto3"]


def test_a_layer_brings_its_packages(cloud: Cloud) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("python/brought.py", "VALUE = 'by the layer'")
    layer = cloud.client("lambda").publish_layer_version(
        LayerName="brings", Content={"ZipFile": content.getvalue()}
    )
    code = "import brought\ndef handler(event, context): return brought.VALUE"
    assert invoke(cloud, cloud.function(code, Layers=[layer["LayerVersionArn"]]))[0] == "by the layer"


COMPILED = next(Path(markupsafe.__file__).parent.glob("_speedups*.so"))
"""A small compiled module of this machine's Python."""
AARCH64 = (183).to_bytes(2, "little")


def of_aarch64(module: bytes) -> bytes:
    """Return a compiled module with the header of one for ARM64."""
    return module[:18] + AARCH64 + module[20:]


@pytest.mark.parametrize(
    ("name", "changed", "expected"),
    [
        (COMPILED.name, bytes, None),
        ("_speedups.cpython-313-aarch64-linux-gnu.so", bytes, "No module named '_speedups'"),
        ("_speedups.cpython-39-x86_64-linux-gnu.so", bytes, "No module named '_speedups'"),
        ("_speedups.abi3.so", of_aarch64, "_speedups.abi3.so: "),
    ],
    ids=[
        "of this platform",
        "of another platform",
        "of another Python",
        "of another machine under a stable name",
    ],
)
def test_a_layers_compiled_module_is_imported_only_on_its_platform(
    cloud: Cloud, name: str, changed: Callable[[bytes], bytes], expected: str | None
) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"python/{name}", changed(COMPILED.read_bytes()))
    layer = cloud.client("lambda").publish_layer_version(
        LayerName="compiled", Content={"ZipFile": content.getvalue()}
    )
    code = "import _speedups\ndef handler(event, context): return _speedups.__name__"
    payload, error = invoke(cloud, cloud.function(code, Layers=[layer["LayerVersionArn"]]))
    if expected is None:
        assert (payload, error) == ("_speedups", None)
    else:
        assert payload["errorType"] == "Runtime.ImportModuleError"
        assert expected in payload["errorMessage"]


def test_a_functions_own_module_wins_over_its_layers(cloud: Cloud) -> None:
    layer = cloud.client("lambda").publish_layer_version(
        LayerName="hides", Content={"ZipFile": packed("WHO = 'layer'", "python/index.py")}
    )
    code = "WHO = 'own'\ndef handler(event, context): return WHO"
    assert invoke(cloud, cloud.function(code, Layers=[layer["LayerVersionArn"]]))[0] == "own"


def test_a_function_acts_under_its_role(cloud: Cloud) -> None:
    code = """
    import boto3
    from botocore.exceptions import ClientError

    def handler(event, context):
        said = {"arn": boto3.client("sts").get_caller_identity()["Arn"]}
        for name in ("/own/may", "/own/may-not"):
            try:
                said[name] = boto3.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
            except ClientError as error:
                said[name] = error.response["Error"]["Code"]
        return said
    """
    for name in ("/own/may", "/own/may-not"):
        cloud.client("ssm").put_parameter(Name=name, Value="read", Type="String", Overwrite=True)
    may = allow("ssm:GetParameter", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/own/may")
    said, _ = invoke(cloud, cloud.function(code, may))
    assert said["arn"].startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/role-")
    assert (said["/own/may"], said["/own/may-not"]) == ("read", "AccessDeniedException")


def test_a_permission_taken_away_is_gone_for_a_warm_function_too(cloud: Cloud) -> None:
    code = """
    import boto3
    ssm = boto3.client("ssm")

    def handler(event, context):
        return ssm.get_parameter(Name="/taken")["Parameter"]["Value"]
    """
    cloud.client("ssm").put_parameter(Name="/taken", Value="read", Type="String", Overwrite=True)
    function = cloud.function(code, allow("ssm:GetParameter"))
    assert invoke(cloud, function)[0] == "read"
    role = cloud.client("lambda").get_function_configuration(FunctionName=function)["Role"].rsplit("/", 1)[-1]
    cloud.client("iam").delete_role_policy(RoleName=role, PolicyName="allowed")
    assert "ssm:GetParameter" in invoke(cloud, function)[0]["errorMessage"]


# ------------------------------------------------------------------------------- isolation


def test_a_function_sees_its_bundle_python_and_a_tmp_of_its_own(cloud: Cloud) -> None:
    function = cloud.function(
        """
        import os

        def handler(event, context):
            open("/tmp/left", "x").close()
            return {
                "root": sorted(os.listdir("/")),
                "bundle": os.getcwd(), "files": os.listdir("."), "task": os.environ["LAMBDA_TASK_ROOT"],
                "tmp": os.listdir("/tmp"), "processes": [each for each in os.listdir("/proc") if each.isdigit()],
                "etc": os.path.exists("/etc/shadow"), "environment": sorted(os.environ),
            }
        """
    )
    system = {
        "bin",
        "sbin",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "usr",
        "etc",
        "dev",
        "proc",
        "tmp",
        "opt",
        "var",
    }
    seen, _ = invoke(cloud, function)
    assert set(seen["root"]) <= system | {Path(sys.base_prefix).parts[1]}
    assert (seen["bundle"], seen["task"], seen["files"]) == ("/var/task", "/var/task", ["index.py"])
    assert seen["tmp"] == ["left"]
    assert seen["processes"] == ["1"]
    assert not seen["etc"]
    other, _ = invoke(
        cloud, cloud.function("import os\ndef handler(event, context): return os.listdir('/tmp')")
    )
    assert other == []


REACHES = (
    "open('/etc/shadow')", "open({key!r})", "os.listdir({state!r})", "open({source!r})",
    "open('/var/task/index.py', 'a')", "open('/new', 'w')", "open('/opt/new', 'w')", "open('/usr/bin/new', 'w')",
    "open('/etc/passwd', 'a')", "open('/proc/sys/kernel/core_pattern', 'w')", "open('/proc/sysrq-trigger', 'w')",
    "os.mknod('/tmp/disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0))", "os.chroot('/tmp')",
    "checked(libc.setns(os.open('/proc/1/ns/net', 0), 0))", "os.kill({server}, 0)",
    "os.readlink('/proc/{server}/root')",
    "checked(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))", "checked(libc.umount2(b'/usr', 2))",
    "checked(libc.ptrace(16, {server}, 0, 0))", "checked(libc.unshare(0x20000))",
    "checked(libc.open_by_handle_at(-100, bytes(136), 0))", "importlib.import_module('localcloud')",
    "subprocess.run(['mount', '-t', 'tmpfs', 'x', '/tmp'], check=True, capture_output=True)",
    "subprocess.run(['cat', {key!r}], check=True, capture_output=True)",
)  # fmt: skip
"""Statements that raise in a function, although most succeed for the user who started the local cloud."""


def test_a_function_reaches_no_file_and_no_process_of_the_machine(cloud: Cloud) -> None:
    facts = {
        "key": str(cloud.state / root_key.FILE),
        "state": str(cloud.state),
        "source": __file__,
        "server": json.loads((cloud.state / "supervisor.json").read_text())["init"],
    }
    code = """
    import ctypes, importlib, os, stat, subprocess

    libc = ctypes.CDLL(None, use_errno=True)

    def checked(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), "refused")

    def handler(event, context):
        done = []
        for each in event:
            try:
                eval(each)
                done.append(each)
            except (OSError, ImportError, subprocess.CalledProcessError):
                pass
        return done
    """
    asked = [each.format(**facts) for each in REACHES]
    payload, _ = invoke(cloud, cloud.function(code), asked)
    assert payload == []


def test_of_two_layers_with_one_file_the_later_counts(cloud: Cloud) -> None:
    client, arns = cloud.client("lambda"), []
    for number in ("1", "2"):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("python/both.py", f"WHICH = {number}")
            archive.writestr(f"only-{number}", number)
        made = client.publish_layer_version(
            LayerName=f"layer-{number}", Content={"ZipFile": content.getvalue()}
        )
        arns.append(made["LayerVersionArn"])
    code = """
    import os
    import both

    def handler(event, context):
        return both.WHICH, sorted(os.listdir("/opt"))
    """
    payload, _ = invoke(cloud, cloud.function(code, Layers=arns))
    assert payload == [2, ["only-1", "only-2", "python"]]
