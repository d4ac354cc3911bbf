"""Restored checkpoint folders: names, links, times and contents equal those before the restart."""

import json
import shutil

import pytest

from tests.contract.agent.host import Yard
from tests.contract.conftest import eventually

LEAVES_MUCH = r"""
import json, os, pathlib, signal, sys, time

root = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"])


def shape():
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        status = path.lstat()
        kind = os.readlink(path) if path.is_symlink() else "folder" if path.is_dir() else path.read_text()
        found[name] = [kind, status.st_mtime_ns, oct(status.st_mode & 0o7777)]
    return found


def newest(by):
    return max((path for path in root.glob("step-*") if not path.is_symlink()), key=by).name


before = root / "last-shape.json"
if before.exists():
    known = json.loads(before.read_text())
    now = shape()
    now.pop("last-shape.json")
    other = [(name, known.get(name), now.get(name)) for name in known.keys() | now.keys()]
    other = [each for each in other if each[1] != each[2]]
    print(f"DIFFERS {other}" if other else "SAME")
    print("NEWEST", newest(os.path.getmtime), newest(os.path.getctime))
    raise SystemExit
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
for step in (30, 9, 100, 20):
    folder = root / f"step-{step}"
    (folder / "optimizer").mkdir(parents=True)
    (folder / "model.pt").write_text(f"weights of {step}")
    time.sleep(0.02)
(root / "0000010.pt").write_text("seven digits")
(root / ".hidden").write_text("a dot")
(root / "my_temp").mkdir()
(root / "my_temp" / "model.pt").write_text("not TensorFlow's")
(root / "run.sh").write_text("#!/bin/sh\n")
(root / "run.sh").chmod(0o755)
links = {"latest": "step-20", "last.pt": "step-20/model.pt", "dangling": "nowhere", "circle": "circle"}
for name, target in {**links, "step-20/up": ".."}.items():
    (root / name).symlink_to(target)
before.write_text(json.dumps(shape()))
os.utime(root / "step-20", ns=(before.stat().st_mtime_ns,) * 2)
known = shape()
known.pop("last-shape.json")
before.write_text(json.dumps(known))
print("saved", flush=True)
time.sleep(60)
"""


def test_links_times_empty_folders_and_odd_names_survive_a_restart(yard: Yard) -> None:
    yard.prepare(LEAVES_MUCH)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    yard.order("stop", 1)
    yard.hear("stopped")
    for path in yard.paths.checkpoints.iterdir():
        if path.is_file() and not path.is_symlink():
            path.write_text("as on another host: none of it is left")
    yard.hear("ready", attempt=2)
    yard.order("start", 2, checkpoint={"step": yard.latest["step"], "key": yard.latest["key"]})
    yard.hear("finished", attempt=2)
    log = yard.log(2)
    assert "SAME" in log, log
    assert "NEWEST step-20 step-20" in log


LOGS_BESIDE = r"""
import os, pathlib, time

root = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"])
(root / "model.pt").write_bytes(b"m" * (4 << 20))
for line in range({lines}):
    with (root / "log.csv").open("a") as log:
        log.write(f"{line},0.5\n")
    time.sleep({every})
"""


@pytest.mark.parametrize(("lines", "every"), [(60, 0.2), (6, 3)])
def test_a_log_beside_a_checkpoint_lets_it_be_sent_once(yard: Yard, lines: int, every: float) -> None:
    yard.prepare(LOGS_BESIDE.replace("{lines}", str(lines)).replace("{every}", str(every)))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    first = {key for key in yard.keys(f"runs/{yard.run}/checkpoints/") if key.endswith("model.pt")}
    yard.hear("finished")
    assert {key for key in yard.keys(f"runs/{yard.run}/checkpoints/") if key.endswith("model.pt")} == first
    assert yard.checkpoint()["log.csv"].count("\n") == lines
    assert json.loads(yard.read(f"{yard.latest['key'][:-1]}.json"))["files"]["model.pt"][3] in next(
        iter(first)
    )


APPENDS = r"""
import os, pathlib, signal, sys, time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
folder = pathlib.Path(os.environ["TRAINYARD_TENSORBOARD"])
(folder / "run").mkdir(parents=True, exist_ok=True)
print("found", sorted(path.name for path in (folder / "run").iterdir()), flush=True)
again = (folder / "run" / "history.csv").exists()
with (folder / "run" / "history.csv").open("a") as log:
    log.write("epoch 2\n" if again else "epoch 1\n")
(folder / "run" / f"events.out.tfevents.{os.getpid()}").write_text("curve")
if not again:
    print("written", flush=True)
    time.sleep(60)
"""


def test_a_log_in_tensorboard_is_appended_to_on_another_host(yard: Yard) -> None:
    yard.prepare(APPENDS)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    eventually(lambda: "written" in yard.log())
    yard.order("stop", 1)
    yard.hear("stopped")
    shutil.rmtree(yard.paths.tensorboard)
    yard.hear("ready", attempt=2)
    yard.order("start", 2)
    yard.hear("finished", attempt=2)
    assert "found ['history.csv']" in yard.log(2)
    assert yard.read(f"runs/{yard.run}/tensorboard/run/history.csv") == "epoch 1\nepoch 2\n"
