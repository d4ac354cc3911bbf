"""Names of users' modules: of our packages a program can only import `trainyard`."""

import shutil
import subprocess

import pytest

from tests.contract.agent.host import Yard, packed
from tests.contract.conftest import DECOY, ROOT, packages_of_the_machine
from training.baking.install import move_library
from training.host.program.packages import site_packages
from trainyard import __version__

FOLDERS = ("training", "host", "runtime", "lambdas")
MODULES = ("data", "utils", "programs")
MINE = f"""
import importlib
from pathlib import Path

here = Path(__file__).parent
for name in {FOLDERS + MODULES}:
    module = importlib.import_module(f"{{name}}.inside" if name in {FOLDERS} else name)
    assert Path(module.__file__).is_relative_to(here), module.__file__
    print("mine:", module.WHOSE)

from trainyard.hold import hold
from trainyard.runtime import start

import trainyard
assert not Path(trainyard.__file__).is_relative_to(here)
print("yours:", start.__module__, trainyard.__version__)
"""


@pytest.fixture
def image(yard: Yard) -> Yard:
    """Return a host like a baked one: TensorFlow and `trainyard` in its Python, `training` in the agent's folder."""
    yard.paths.python.unlink()
    environment = yard.paths.python.parent.parent
    subprocess.run(
        [ROOT / ".venv-host/bin/python", "-m", "venv", "--without-pip", str(environment)], check=True
    )
    for path in site_packages(ROOT / ".venv-host").iterdir():
        (site_packages(environment) / path.name).symlink_to(path)
    for name in ("training", "trainyard"):
        shutil.copytree(ROOT / name, yard.paths.agent / name)
    move_library(yard.paths.agent / "trainyard", site_packages(environment))
    return yard


def test_a_program_has_none_of_the_packages_that_are_installed_on_the_machine(
    yard: Yard, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in packages_of_the_machine(tmp_path_factory.mktemp("machine")).items():
        monkeypatch.setenv(name, value)
    program = f"""
import importlib.util, sys
print("decoy:", importlib.util.find_spec({DECOY!r}))
print("packages:", [each for each in sys.path if each.endswith(("site-packages", "dist-packages"))])
"""
    yard.prepare(program)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    own = site_packages(yard.paths.python.parent.parent)
    assert "decoy: None\n" in yard.log()
    assert f"packages: ['{own}']\n" in yard.log()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("with_init", "requirements"), [(True, None), (False, "needs.txt")])
def test_a_program_may_call_its_modules_as_ours_are_called(
    image: Yard, *, with_init: bool, requirements: str | None
) -> None:
    files = {f"{name}/inside.py": f"WHOSE = {name!r}\n" for name in FOLDERS}
    files |= {f"{name}.py": f"WHOSE = {name!r}\n" for name in MODULES}
    if with_init:
        files |= {f"{name}/__init__.py": "" for name in FOLDERS}
    image.prepare("", program={"module": "training.mine", "requirements": requirements})
    needs = {"needs.txt": f"trainyard=={__version__}\nnumpy\n"}
    mine = MINE.replace("Path(__file__).parent", "Path(__file__).parent.parent")
    image.put("programs/p.tar.gz", packed(files | needs | {"training/mine.py": mine}))
    image.start_agent()
    image.hear("ready")
    image.order("start", 1)
    image.hear("finished", within=240)
    log = image.log(1)
    assert [line.rpartition(" ")[2] for line in log.splitlines() if "mine:" in line] == [*FOLDERS, *MODULES]
    assert f"yours: trainyard.runtime.session {__version__}" in log


@pytest.mark.timeout(300)
def test_a_job_without_a_source_runs_a_shipped_program(image: Yard) -> None:
    args = {"size": "8x8x8", "device": "/CPU:0"}
    image.prepare("", program={"source": None, "module": "training.programs.matmul", "args": args})
    image.start_agent()
    image.hear("ready")
    image.order("start", 1)
    image.hear("finished", within=240)


def test_an_archive_with_a_module_trainyard_is_refused(yard: Yard) -> None:
    yard.prepare("")
    yard.put("programs/p.tar.gz", packed({"mine.py": "", "trainyard/__init__.py": ""}))
    yard.start_agent()
    failed = yard.hear("failed")
    assert (failed["kind"], failed["final"]) == ("program", True)
    assert "programs/p.tar.gz contains a module trainyard" in failed["reason"]
