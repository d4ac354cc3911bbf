"""The yard from `cdk synth`, once for all tests here, with the AWS Solutions rules."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructure.assembly import Assembly

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.infrastructure)


ZONES = "us-east-1a,us-east-1b,us-east-1c"
KEY = "arn:aws:kms:us-east-1:123456789012:key/9a746902-de65-49d8-9234-021e1480b584"
OTHER_KEY = "arn:aws:kms:us-east-1:210987654321:key/11111111-de65-49d8-9234-021e1480b584"
CONTEXTS: Mapping[str, Mapping[str, Any]] = {
    "yard": {"zones": ZONES},
    "private": {
        "yard": "Other",
        "private": True,
        "disposable": True,
        "notify": "someone@example.org",
        "bake_on_deploy": "false",
        "bake_recipe": "mine",
        "zones": ZONES,
    },
    "keyed": {
        "zones": ZONES,
        "kms_key": KEY,
        "data_buckets": f"corpus,shared/images/={OTHER_KEY}",
        "registries": "arn:aws:ecr:us-east-1:123456789012:repository/team/*,nvcr.io",
        "pull_through": "docker.io=docker-hub",
        "file_systems": "fs-0123456789abcdef0:write:fsap-0123456789abcdef0,fsx://fs-0fedcba9876543210",
        "model_url": True,
        "most_predictions_at_once": 0,
    },
}
"""The settings of the yards that tests synthesize, by the names of the fixtures."""


def synthesise(folder: Path, context: Mapping[str, Any]) -> Assembly:
    """Run app.py as `cdk` does. Fail with its output, which includes findings of the rules."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CDK_OUTDIR": str(folder),
        "CDK_CONTEXT_JSON": json.dumps(
            json.loads((ROOT / "cdk.json").read_text())["context"] | dict(context)
        ),
    }
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Assembly.read(folder)


@pytest.fixture(scope="session")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Return the yard with default settings."""
    return synthesise(tmp_path_factory.mktemp("yard"), CONTEXTS["yard"])


@pytest.fixture(scope="session")
def private_yard(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Return a yard with `-c yard=Other -c private=true -c disposable=true -c notify=someone`, which bakes nothing
    at its deployment."""
    return synthesise(tmp_path_factory.mktemp("private"), CONTEXTS["private"])


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Return a yard with a customer's key for every secret, which reads other buckets, too. Its models have a URL and
    no reserved concurrency."""
    return synthesise(tmp_path_factory.mktemp("keyed"), CONTEXTS["keyed"])
