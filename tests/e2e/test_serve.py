"""A model that LiteRT cannot run is served by a host, which ends when idle and which a prediction wakes."""

import base64
import json
import struct
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.datasets import HOST_PYTHON
from scripts.local_yard import ROOT
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.users import done, person, words
from trainyard.client import Run
from trainyard.exit_codes import ExitCode

CLIENT = Path(__file__).parent / "scripts" / "serve_client.py"
MODEL = "parser"


def test_a_host_serves_what_litert_cannot_run(runs: Runs, tmp_path: Path) -> None:
    with person(runs, "user", "server") as user:
        folder = tmp_path / "export"
        client("save", str(folder))
        for line in (
            ("models", "create", MODEL),
            ("versions", "create", "v1", "--model", MODEL, "--origin", str(folder)),
            ("versions", "set-default", "v1", "--model", MODEL),
        ):
            succeed(user, *line)
        request = json.dumps({"instances": [example(1.5, -3.25), example(0.1, 0.2)]})
        predict = ("predict", "--model", MODEL, "--json-instances", "-", "-o", "json")
        code, _, said = done(user, *predict, piped=request)
        assert code == ExitCode.REFUSED
        assert f"trainyard serve {MODEL}" in said
        code, _, said = done(user, "serve", "open", MODEL)
        assert (code, "no host serves version 1 (v1)" in said) == (ExitCode.REFUSED, True), said

        told = succeed(
            user, "serve", MODEL, "--on", "m7i.large", "--idle", "2m", "--hours", "1", "-o", "json"
        )
        first = runs.yard.run(json.loads(told)["run"])
        with opened(user) as ports, kept_awake(ports["rest"], request):
            assert client("ask", str(folder), MODEL, str(ports["grpc"])) == "equal"
            found = ask(ports["rest"], f"/v1/models/{MODEL}:predict", request)
            assert [row["sum"] for row in found["predictions"]] == [-1.75, 0.30000001192092896]
            status = ask(ports["rest"], f"/v1/models/{MODEL}")
            assert status["model_version_status"][0]["state"] == "AVAILABLE"
            check_no_shell(runs, user, first)
            assert "serving" in succeed(user, "serve", "ls")
        ended = runs.finish(first)
        assert ended.succeeded, ended.why()
        runs.until("the end of the host", lambda: not running(runs, first))

        asking = [
            subprocess.Popen(
                words(*predict), env=dict(user), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        answers = [json.loads(each.communicate(request, timeout=PATIENCE)[0]) for each in asking]
        assert [answer["predictions"] for answer in answers] == [found["predictions"]] * 2
        (row,) = runs.yard.model(MODEL).rows.served
        assert (row.start, row.by, row.how.idle_minutes) == (2, "server", 2.0)
        second = runs.yard.run(row.run)
        succeed(user, "serve", "stop", MODEL)
        runs.finish(second)
        assert second.summary["submitter"] == "server"
        assert second.summary["outcome"] == "stopped"


def client(*given: str) -> str:
    """Run the client in the environment that has TensorFlow."""
    line = [str(HOST_PYTHON), str(CLIENT), *given]
    environment = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def succeed(user: Mapping[str, str], *line: str) -> str:
    code, told, said = done(user, *line)
    assert code == 0, said
    return told


def example(*values: float) -> dict[str, str]:
    """Return a tf.Example with the feature x: a map of floats in the format of protocol buffers."""
    floats = struct.pack(f"<{len(values)}f", *values)
    as_list = field(2, field(1, floats))
    entry = field(1, b"x") + field(2, as_list)
    return {"b64": base64.b64encode(field(1, field(1, entry))).decode()}


def field(number: int, content: bytes) -> bytes:
    """Return a field of a message that has a length."""
    return bytes([number << 3 | 2, len(content)]) + content


@contextmanager
def opened(user: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    line = words("serve", "open", MODEL, "--port", "0", "--grpc-port", "0", "-o", "json")
    with subprocess.Popen(line, env=dict(user), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(PATIENCE)


@contextmanager
def kept_awake(port: int, request: str) -> Iterator[None]:
    """Ask for predictions every few seconds, so that the host serves as long as the test is busy."""
    ends = threading.Event()

    def ask_again() -> None:
        while not ends.wait(5):
            ask(port, f"/v1/models/{MODEL}:predict", request)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask_again)
        try:
            yield
        finally:
            ends.set()
            asking.result()


def ask(port: int, path: str, body: str | None = None) -> Any:
    url = f"http://127.0.0.1:{port}{path}"
    data = None if body is None else body.encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=PATIENCE) as answer:
        return json.load(answer)


def running(runs: Runs, run: Run) -> list[str]:
    return [each["InstanceId"] for each in runs.yard.instances(run.id) if each["State"]["Name"] == "running"]


def check_no_shell(runs: Runs, user: Mapping[str, str], run: Run) -> None:
    """Check that the user has no shell and no other port on the host."""
    (host,) = running(runs, run)
    for line in (("shell", host, "--", "id"), ("forward", host, "22:0")):
        code, _, said = done(user, *line)
        assert (code, "ssm:StartSession" in said) == (ExitCode.DENIED, True), said
