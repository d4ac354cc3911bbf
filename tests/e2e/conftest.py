"""A local cloud with a deployed yard and a baked image, shared by all end-to-end tests of a session.

TRAINYARD_E2E_STATE=folder keeps the state of the cloud between sessions, so that later sessions skip the bake.
TRAINYARD_E2E_YARD=folder contains a yard that parallel sessions copy; the first session creates it.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from localcloud.base import root_key
from scripts.local_yard import ROOT, Cloud, port_for
from tests.e2e.runs import Runs
from trainyard.client import Yard

OTHER_BUCKET = "example-open-data"
READS = f"{OTHER_BUCKET}/digits/"
"""The folder of the other bucket that the yard reads."""
REGISTRIES = "arn:aws:ecr:us-east-1:123456789012:repository/*,docker.io,nvcr.io"
"""The registries whose images its runs may use."""


LOOPBACK = "internal_webhooks=127.0.0.0/8"
"""The network of the receivers of its webhooks."""
FILE_SYSTEM = "shared"
"""The token of the file system that its runs may mount."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session", autouse=True)
def cdk_checks_no_template_here() -> Iterator[None]:
    """Skip a check that tests/infrastructure runs and that takes a third of each synthesis."""
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
        if not kept:  # pytest takes minutes to delete the 100,000 files of disks and images
            subprocess.run(["rm", "-rf", state / "images", state / "instances"], check=False)


@pytest.fixture(scope="session")
def runs(cloud: Cloud) -> Runs:
    return Runs(cloud, furnished(cloud))


def cloud_in(state: Path) -> Cloud:
    settings = (f"data_buckets={READS}", f"registries={REGISTRIES}", "model_url=true", LOOPBACK)
    choices = tuple(word for setting in settings for word in ("-c", setting))
    return Cloud(state, port_for(0), Path(__file__).with_name("settings.yaml"), choices)


def furnished(cloud: Cloud) -> Yard:
    """Return the yard of a cloud with an image, and create what is missing. Its runs may mount one file system."""
    mounts = ("-c", f"file_systems={shared_file_system(cloud)}:write")
    yard = replace(cloud, yard_settings=(*cloud.yard_settings, *mounts)).deploy()
    yard.bake(ROOT / "examples" / yard.recipe).result()
    return yard


def shared_file_system(cloud: Cloud) -> str:
    """Return the id of the file system that runs of the yard may mount. A token names it, so that it is made once."""
    efs = cloud.session().client("efs")
    found = efs.describe_file_systems(CreationToken=FILE_SYSTEM)["FileSystems"]
    return str((found or [efs.create_file_system(CreationToken=FILE_SYSTEM)])[0]["FileSystemId"])


def made_once(folder: Path) -> Path:
    """Return the state of a cloud with such a yard. The first session creates it while the others wait."""
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
            ended = (making / "instances").glob(".*")  # the cloud was still deleting the builder's disk
            subprocess.run(["rm", "-rf", *ended], check=True)
            making.rename(state)
    return state


def copy_of(state: Path, target: Path) -> None:
    """Copy the state of a cloud. The files of images never change, so they are linked."""
    for each in state.iterdir():
        if each.is_dir():
            copy = os.link if each.name == "images" else shutil.copy2
            shutil.copytree(each, target / each.name, symlinks=True, copy_function=copy)
        else:
            shutil.copy2(each, target)


@pytest.fixture(autouse=True)
def no_host_remains(runs: Runs) -> Iterator[None]:
    """Clear all faults after each test and fail if a host still runs.

    A request is 0.2 s faster than the command `fault clear`.
    """
    yield
    key = {"Authorization": root_key.load_key(runs.cloud.state).as_basic()}
    clear = Request(f"http://127.0.0.1:{runs.cloud.port}/_localcloud/faults/clear", b"{}", key)
    urlopen(clear, timeout=30).close()
    assert runs.living() == []
