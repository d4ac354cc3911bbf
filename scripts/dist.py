"""Build the wheel and the source archive, check what is in them, and use the wheel in an empty environment.

`make dist`; `make dist ARGS=--no-try` leaves out the last step, which downloads 1 GB and takes some ten minutes.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "build/dist"
SOURCES = "trainyard/sources/"
DEPLOYED = (
    "examples", "lambdas", "localcloud", "requirements", "scripts", "stacks", "training",
    "Makefile", "app.py", "cdk.json", "pyproject.toml", "requirements.txt",
)  # fmt: skip
"""The part of a clone beside the package that deploys yards and runs the local cloud."""
STORY = """
trainyard --version
trainyard local up
eval "$(trainyard local env)"
trainyard yard deploy
trainyard image bake
trainyard init --example digits
trainyard submit job.yaml
trainyard get @last
find digits-*/model -name saved_model.pb | grep .
trainyard ui --no-browser >page.txt & page=$!
python look.py page.txt digits
kill $page; wait $page || true
trainyard dev up mine --market on_demand
trainyard dev shell mine -- id
trainyard dev down mine --yes
trainyard hosts
"""
LOOK = """
import re, sys, time, urllib.request

while not (found := re.search(r"(http://\\S+/)#token=(\\S+)", open(sys.argv[1]).read())):
    time.sleep(0.5)
request = urllib.request.Request(found[1], headers={"X-Trainyard-Token": found[2]})
page = urllib.request.urlopen(request).read().decode()
assert sys.argv[2] in page and "Finished" in page, page
print(f"the page {found[1]} shows the run")
"""
"""A program that waits for the address of the page in a file, and requires the page to show a finished run by name."""
PASSED_ON = ("PIP_", "UV_", "npm_", "HTTP", "http", "SSL_", "NODE_EXTRA")
"""Beginnings of the variables that say how packages are fetched."""


def main(arguments: list[str]) -> int:
    for old in DIST.glob("trainyard-*"):
        old.unlink()
    subprocess.run(["uv", "build", "--quiet", "--out-dir", DIST, ROOT], check=True)
    (wheel,), (archive,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    wrong = faults(wheel, archive)
    for fault in wrong:
        print(fault)
    if wrong:
        return 1
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB")
    return 0 if "--no-try" in arguments else use(wheel)


def faults(wheel: Path, archive: Path) -> list[str]:
    """Return a line for each file that the wheel or the archive lacks, or has without being a tracked file."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    package = {name for name in listed.splitlines() if name.startswith("trainyard/")}
    beside = {name for name in listed.splitlines() if name.split("/")[0] in DEPLOYED}
    with zipfile.ZipFile(wheel) as file:
        in_wheel = {name for name in file.namelist() if ".dist-info/" not in name}
    with tarfile.open(archive) as tar:
        in_archive = {name.partition("/")[2] for name in tar.getnames()}
    wanted = package | {f"{SOURCES}{name}" for name in beside}
    lines = [f"{wheel.name} lacks {name}" for name in sorted(wanted - in_wheel)]
    lines += [f"{wheel.name} has {name}, which git does not track" for name in sorted(in_wheel - wanted)]
    return lines + [f"{archive.name} lacks {name}" for name in sorted((package | beside) - in_archive)]


def use(wheel: Path) -> int:
    """Run the commands of a first day in an empty environment, in an empty folder of an empty home."""
    with tempfile.TemporaryDirectory(prefix="trainyard-") as name:
        home = Path(name)
        kept = {key: value for key, value in os.environ.items() if key.startswith(PASSED_ON)}
        environment = kept | {"HOME": name, "PATH": f"{home}/env/bin:/usr/bin:/bin"}
        subprocess.run([sys.executable, "-m", "venv", home / "env"], check=True)
        subprocess.run([home / "env/bin/pip", "install", "--quiet", wheel], check=True, env=environment)
        (home / "look.py").write_text(LOOK)
        shell = ["bash", "-exc", f"trap 'trainyard local down --forget' EXIT\n{STORY}"]
        return subprocess.run(shell, cwd=home, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
