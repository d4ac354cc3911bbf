"""From training to a prediction: a version of a run's model answers as TensorFlow did at its export."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from scripts.datasets import DIGITS
from scripts.local_yard import ROOT, client_environment
from tests.e2e.runs import Runs
from tests.e2e.users import person
from trainyard.client.errors import NotPredicted
from trainyard.client.registry import Model
from trainyard.core.prediction.agreement import find_difference
from trainyard.exit_codes import ExitCode
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN, LITE_MODEL
from trainyard.protocol.predictions import url_of

ROWS = np.zeros((1, 8, 8, 1)).tolist()


def test_a_model_is_trained_made_a_version_and_asked(runs: Runs, tmp_path: Path) -> None:
    def command(*words: str, code: int = 0, text: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trainyard.cli", *words],
            env=client_environment(runs.cloud.environment()) | {"PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    name = run = trained(runs, tmp_path)
    command("models", "create", name)
    command("versions", "create", "v1", "--model", name, "--origin", run)
    refused = command("predict", "--model", name, "--json-instances", "-", text="[0]", code=ExitCode.REFUSED)
    assert f"{name} has no default version" in refused
    command("versions", "set-default", "v1", "--model", name)
    golden = runs.yard.bucket.json(f"{keys.version(name, 1)}{GOLDEN}")
    assert golden is not None
    for signature, expected in golden["signatures"].items():
        np.savez(tmp_path / "rows.npz", image=np.array(expected["inputs"]["image"], np.float32))
        request = command("request", name, "--from", "rows.npz", "--rows", "0:8", "--signature", signature)
        found = answer(
            command("predict", "--model", name, "--json-instances", "-", "-o", "json", text=request)
        )
        rows = found["predictions"]
        outputs = list(expected["tensorflow"])
        columns = {each: [row[each] for row in rows] if len(outputs) > 1 else rows for each in outputs}
        assert (found["version"], find_difference(expected["tensorflow"], columns)) == (1, None)
    short = command("predict", "--model", name, "--json-instances", "-", text="[0, 1]", code=ExitCode.REFUSED)
    assert "instances[0]: found a list of 2 numbers; wanted 8 (float32, shape (any, 8, 8, 1))" in short
    only_users_predict_by_url(runs, name, request)
    command("versions", "create", "v2", "--model", name, "--origin", run)
    a_canary_that_fails_is_rolled_back(runs, name, command)


def only_users_predict_by_url(runs: Runs, name: str, request: str) -> None:
    """Send a request to the URL of the yard's models: signed by a user and by a viewer, and without a signature."""
    # The address has the port of the deployment, and the local cloud may have another port since its last start.
    endpoint = runs.cloud.environment()["AWS_ENDPOINT_URL"]
    url = f"{endpoint}{urlsplit(url_of(runs.yard.model_url, name)).path}"
    with person(runs, "user", f"asks-{name}") as user, person(runs, "viewer", f"sees-{name}") as viewer:
        status, text = curl(url, request, user)
        assert (status, sorted(answer(text))) == (200, ["predictions"])
        assert len(answer(text)["predictions"]) == len(json.loads(request)["instances"])
        for unknown in (viewer, {**user, "AWS_SECRET_ACCESS_KEY": "wrong"}, None):
            status, text = curl(url, request, unknown)
            assert (status, "predictions" in text) == (403, False)


def curl(url: str, body: str, who: Mapping[str, str] | None) -> tuple[int, str]:
    """Send a request as a user types it, signed with these credentials. Return status and body."""
    signed = ["--aws-sigv4", "aws:amz:us-east-1:lambda"]
    signed += ["--user", f"{who['AWS_ACCESS_KEY_ID']}:{who['AWS_SECRET_ACCESS_KEY']}"] if who else []
    argv = [
        "curl",
        "-sS",
        "-w",
        "\n%{http_code}",
        "-H",
        "Content-Type: application/json",
        "--data-binary",
        "@-",
    ]
    ended = subprocess.run(
        [*argv, *(signed if who else ()), url], input=body, capture_output=True, text=True, check=True
    )
    text, _, status = ended.stdout.rpartition("\n")
    return int(status), text


def a_canary_that_fails_is_rolled_back(runs: Runs, name: str, command: Callable[..., str]) -> None:
    """Change the file of version 2 by hand, so that it fails each request, and give it half of them."""
    model = runs.yard.model(name)
    runs.yard.bucket.put(f"{keys.version(name, 2)}{LITE_MODEL}", b"changed by hand")
    command("models", "canary", name, "--to", "v2", "--percent", "50", "--minutes", "60")
    started = model.rows.moves[-1]
    assert (started.alias, started.new, started.by) == ("canary", 2, model.rows.row.owner)
    answered_by = [answering_version(model, f"customer-{number}") for number in range(40)]
    assert {*answered_by} == {None, 1}
    with pytest.raises(NotPredicted, match="was changed after the version was made"):
        model.predict(ROWS, version=2)
    runs.until("patrol rolls the canary back", lambda: model.rows.row.canary is None)
    ended = model.rows.moves[-1]
    assert (ended.alias, ended.old, ended.new, ended.by) == ("canary", 2, 1, "patrol")
    assert re.match(r"rolled back: version 2 failed (\d+) of \1 requests \(100\.0%\)", ended.why)
    # The request above with two numbers is one that version 1 did not answer. It counts if it is recent.
    assert re.search(r"and version 1 failed [01] of \d+ requests", ended.why)
    shown = command("models", "show", name)
    assert f"canary names 1 instead of 2: {ended.why} by patrol" in shown
    runs.until(
        "version 1 answers every customer",
        lambda: {answering_version(model, f"customer-{number}") for number in range(8)} == {1},
    )


def answering_version(model: Model, key: str) -> int | None:
    """Return the version that answers the request of a customer; None if it fails."""
    try:
        return model.predict(ROWS, key=key).version
    except NotPredicted:
        return None


def answer(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def trained(runs: Runs, folder: Path) -> str:
    """Train digits on one host, and return the run's id."""
    runs.yard.bucket.put_folder(DIGITS.made_in(folder), DIGITS.prefix)
    data = f"s3://{runs.yard.bucket.name}/{DIGITS.prefix}"
    job = runs.job(
        "digits",
        program={"source": None, "module": "training.programs.digits", "args": None},
        data={"few": None, "train": f"{data}train/", "test": f"{data}test/"},
        cluster={"strategy": "single", "workers": 1},
    )
    job["program"]["args"] = {"epochs": 2, "global-batch-size": 64}
    run = runs.finish(runs.start(job))
    assert run.succeeded, run.why()
    return run.id
