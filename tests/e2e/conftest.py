"""One deployed and baked yard on a local cloud of its own, for all whole-run tests of a session.

TRAINYARD_E2E_STATE=folder keeps that cloud's state between sessions, so that the second needs no bake.
TRAINYARD_E2E_YARD=folder holds a yard that sessions side by side have a copy of each: the first of them makes it.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from localcloud.base import root_key
from scripts.local_yard import ROOT, Cloud, port_for
from tests.e2e.runs import Runs
from trainyard.client import Yard

OTHER_BUCKET = "open-data-of-somebody"
READS = f"{OTHER_BUCKET}/digits/"
"""The folder of it that the yard reads."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session", autouse=True)
def cdk_checks_no_template_here() -> Iterator[None]:
    """It does so in tests/infrastructure; it takes a third of each synthesis."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDK_VALIDATION", "false")
        yield


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    kept, shared = os.environ.get("TRAINYARD_E2E_STATE"), os.environ.get("TRAINYARD_E2E_YARD")
    state = Path(kept) if kept else tmp_path_factory.mktemp("cloud")
    if shared and not kept:
        copy_of(made_once(Path(shared)), state)
    cloud = cloud_in(state)
    cloud.up()
    try:
        yield cloud
    finally:
        cloud.down()
        if not kept:  # hosts' disks and images are 100,000 files and more, for which pytest takes minutes
            subprocess.run(["rm", "-rf", state / "images", state / "instances"], check=False)


@pytest.fixture(scope="session")
def runs(cloud: Cloud) -> Runs:
    return Runs(cloud, furnished(cloud))


def cloud_in(state: Path) -> Cloud:
    reads = ("-c", f"data_buckets={READS}")
    return Cloud(state, port_for(0), Path(__file__).with_name("settings.yaml"), reads)


def furnished(cloud: Cloud) -> Yard:
    """Its yard, with an image. What is there already is not made again."""
    yard = cloud.deployed()
    yard.bake(ROOT / "examples" / yard.recipe).result()
    return yard


def made_once(folder: Path) -> Path:
    """The state of a cloud with such a yard. Whoever comes first makes it, while the others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "state"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not state.exists():
            making = folder / "making"
            shutil.rmtree(making, ignore_errors=True)
            cloud = cloud_in(making)
            cloud.up()
            try:
                furnished(cloud)
            finally:
                cloud.down()
            ended = (making / "instances").glob(".*")  # the builder's disk, which it was still removing
            subprocess.run(["rm", "-rf", *ended], check=True)
            making.rename(state)
    return state


def copy_of(state: Path, target: Path) -> None:
    """Of an image nobody changes a file: two clouds may have the same one."""
    for each in state.iterdir():
        if each.is_dir():
            copy = os.link if each.name == "images" else shutil.copy2
            shutil.copytree(each, target / each.name, symlinks=True, copy_function=copy)
        else:
            shutil.copy2(each, target)


@pytest.fixture(autouse=True)
def nothing_lives_on(runs: Runs) -> Iterator[None]:
    """Whatever a test did, no host may be left, and no fault may reach the next test. The command, `fault clear`, would
    take a fifth of a second to start."""
    yield
    key = {"Authorization": root_key.of(runs.cloud.state).as_basic()}
    clear = Request(f"http://127.0.0.1:{runs.cloud.port}/_localcloud/faults/clear", b"{}", key)
    urlopen(clear, timeout=30).close()
    assert runs.living() == []
