"""Files in a program's working folder: uploaded to the bucket, and restored after an interruption."""

import json
import os
import re
from datetime import timedelta
from typing import Any

import pytest

from tests.contract.agent.host import Yard
from tests.contract.conftest import eventually
from training.host.agent.deadlines import drain

TRAINS = r"""
import json, os, pathlib, shutil, signal, sys, time

out = pathlib.Path("outputs")
newest = out / "last.ckpt"
step = int(newest.read_text()) if newest.exists() else 0
print("begins at", step, sorted(str(p) for p in pathlib.Path().rglob("*")), flush=True)
if step:
    print("link", os.readlink(newest), "times", [p.stat().st_mtime_ns for p in sorted(out.glob("*.ckpt"))], flush=True)
out.mkdir(exist_ok=True)
pathlib.Path("empty/inside").mkdir(parents=True, exist_ok=True)
pathlib.Path("settings.json").write_text(json.dumps({"changed": True}))
log = open("log.txt", "a")
is_first = pathlib.Path(os.environ["TRAINYARD_PROGRESS"]).parent.name == "0001"
goal = step + (10**6 if is_first else 20)
while step < goal:
    step += 1
    log.write("step %d\n" % step)
    log.flush()
    (out / ("%07d.ckpt" % step)).write_text(str(step))
    link = out / "link"
    link.symlink_to("%07d.ckpt" % step)
    link.replace(newest)
    for old in sorted(out.glob("0*.ckpt"))[:-3]:
        old.unlink()
    time.sleep(2.0 if is_first else 0.02)
"""


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that a program gets to stop."""
    monkeypatch.setattr(drain, "GRACE", timedelta(seconds=12))


def outputs(yard: Yard) -> dict[str, str]:
    prefix = f"runs/{yard.run}/outputs/"
    return {key.removeprefix(prefix): yard.read(key) for key in yard.keys(prefix)}


def listed(yard: Yard, host: str = "chief-0", name: str = "files") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(yard.read(f"runs/{yard.run}/outputs-of/{host}/{name}.json"))
    return found


def restorable(yard: Yard) -> bool:
    """Return True if a restart would find a checkpoint."""
    if not yard.keys(f"runs/{yard.run}/outputs-of/chief-0/files.json"):
        return False
    found = listed(yard)
    whole = found["snapshot"] is None
    last = found["links" if whole else "snapshot_links"].get("outputs/last.ckpt")
    return f"outputs/{last}" in found["files" if whole else "snapshot"]


def test_outputs_are_kept_while_the_program_runs_and_found_again_after_an_interruption(yard: Yard) -> None:
    yard.prepare(TRAINS)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    eventually(lambda: restorable(yard))
    yard.order("stop", 1)
    assert yard.hear("stopped")["why"] == "asked"
    kept = outputs(yard)
    numbers = sorted(int(name[8:15]) for name in kept if name.startswith("outputs/"))
    assert len(numbers) == 3, "what the program removes is removed"
    assert all(kept[f"outputs/{number:07d}.ckpt"] == str(number) for number in numbers)
    assert kept["log.txt"].splitlines()[-1] == f"step {numbers[-1]}"
    assert "mine.py" not in kept, "source files are not outputs"
    assert not [name for name in kept if "__pycache__" in name]
    known = listed(yard)
    assert known["links"] == {"outputs/last.ckpt": f"{numbers[-1]:07d}.ckpt"}
    assert known["folders"] == ["empty/inside"]

    yard.hear("ready", attempt=2)
    yard.order("start", 2)
    finished = yard.hear("finished", attempt=2)
    assert "working_folder" not in finished
    log = yard.log(attempt=2)
    begun = re.search(r"begins at (\d+) ", log)
    assert begun
    assert 0 < int(begun[1]) <= numbers[-1]
    assert "link 00000" in log, "a link is a link again"
    assert "'empty/inside'" in log
    names = {f"outputs/{int(begun[1]) + number:07d}.ckpt" for number in (18, 19, 20)}
    assert outputs(yard).keys() >= {*names, "log.txt", "settings.json"}
    assert listed(yard)["files"].keys() >= names
    assert listed(yard)["snapshot"] is None, "all of it is whole at the end"


ODD = r"""
import os, pathlib, socket

os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
pathlib.Path("around").symlink_to(".")
pathlib.Path("away").symlink_to("/nowhere")
for name in (b"r\xe9sum\xe9.txt", b"a\x01b", b"d" * 255, "läuft 'a' %2F+&?#.txt".encode()):
    pathlib.Path(os.fsdecode(name)).write_text("kept")
with open("sparse", "wb") as file:
    file.truncate(100 * 2**30)
pathlib.Path("closed").write_text("x")
os.chmod("closed", 0)
pathlib.Path("env").mkdir()
pathlib.Path("env/pyvenv.cfg").write_text("home = /usr/bin")
pathlib.Path("node_modules").mkdir()
pathlib.Path("node_modules/x.js").write_text("x")
pathlib.Path("@worker-1").mkdir()
pathlib.Path("@worker-1/x").write_text("x")
os.makedirs("deep/" + "/".join(["d" * 250] * 4))
pathlib.Path("deep/" + "/".join(["d" * 250] * 4) + "/x").write_text("x")
"""


def test_what_the_bucket_cannot_hold_is_named_and_ends_no_run(yard: Yard) -> None:
    yard.prepare(ODD)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    kept = {"läuft 'a' %2F+&?#.txt", "d" * 255}
    if os.geteuid() == 0:
        kept.add("closed")
    assert outputs(yard).keys() == kept
    left_out = {each["path"]: each["reason"] for each in listed(yard, name="report")["left_out"]}
    assert left_out["pipe"] == "it is a pipe"
    assert left_out["socket"] == "it is a socket"
    assert left_out["env/"] == "it is a virtual environment"
    assert left_out["node_modules/"] == "it is a cache"
    assert "sparse" in left_out["sparse"]
    assert left_out[r"r\xe9sum\xe9.txt"] == "its name is not UTF-8"
    assert left_out[r"a\x01b"] == "its name contains a control character"
    assert "@worker-1" in left_out
    assert listed(yard)["links"] == {"around": ".", "away": "/nowhere"}
    log = yard.log()
    assert r"outputs: r\xe9sum\xe9.txt is left out: its name is not UTF-8" in log
    assert "outputs: sparse (100.0 GiB) is left out" in log


CONTINUES = r"""
import os, pathlib

for path in sorted(p for p in pathlib.Path().rglob("*.ckpt")):
    print(path, os.readlink(path) if path.is_symlink() else path.read_text(), flush=True)
print("newest", max(pathlib.Path("outputs").glob("0*.ckpt"), key=os.path.getmtime).name, flush=True)
pathlib.Path("outputs/0000001.ckpt").unlink()
pathlib.Path("outputs/0000002.ckpt").write_text("changed by the new run")
"""


def test_a_run_that_resumes_another_begins_with_its_outputs_and_leaves_the_originals(yard: Yard) -> None:
    other = f"runs/{yard.run}-before"
    rows = {
        f"outputs/000000{step}.ckpt": [1, mtime * 10**9, mtime * 10**9, ""]
        for step, mtime in ((1, 100), (2, 300), (3, 200))
    }
    for path in rows:
        yard.put(f"{other}/outputs/{path}", path[-6])
    known = {
        "attempt": 1,
        "files": rows,
        "earlier": {},
        "links": {"outputs/last.ckpt": "0000002.ckpt"},
        "folders": [],
        "snapshot": None,
        "snapshot_links": {},
    }
    yard.put(f"{other}/outputs-of/chief-0/files.json", json.dumps(known))
    before = {key: yard.read(key) for key in yard.keys(f"{other}/")}
    resumes = {"steps": 0, "seconds": 120.0, "keep": 3, "resume": other.removeprefix("runs/")}
    yard.prepare(CONTINUES, checkpoints=resumes)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    log = yard.log()
    for step in "123":
        assert f"outputs/000000{step}.ckpt {step}" in log, log
    assert "outputs/last.ckpt 0000002.ckpt" in log
    assert "newest 0000002.ckpt" in log
    assert f"3 files of {other.removeprefix('runs/')} restored into the working folder" in log
    assert outputs(yard) == {
        "outputs/0000002.ckpt": "changed by the new run",
        "outputs/0000003.ckpt": "3",
    }
    assert {key: yard.read(key) for key in yard.keys(f"{other}/")} == before


WRITES_ELSEWHERE = r"""
import os, pathlib, time

root = pathlib.Path(os.environ["HOME"]).parents[3]
pathlib.Path.home().joinpath("best.pt").write_bytes(b"weights")
root.joinpath("data").mkdir()
root.joinpath("data/predictions.csv").write_bytes(b"x" * 3_000_000)
cache = pathlib.Path.home() / ".cache/huggingface"
cache.mkdir(parents=True)
cache.joinpath("model.safetensors").write_bytes(b"x" * 3_000_000)
pathlib.Path("kept.pt").write_bytes(b"weights")
time.sleep(3)
"""


def test_files_outside_the_working_folder_are_named_while_the_program_runs_and_at_its_end(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.host.agent.outputs.OUTSIDE_SECONDS", 0.5)
    yard.prepare(WRITES_ELSEWHERE)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    (but,) = yard.hear("finished")["but"]
    assert but.startswith(
        "2 files outside the working folder will be lost with the host: /data/predictions.csv (2.9 MiB)"
    )
    assert "~/best.pt (7 B)" in but
    lines = yard.log().splitlines()
    warned = [number for number, line in enumerate(lines) if "outside the working folder" in line]
    ended = next(number for number, line in enumerate(lines) if "the program ended with exit code" in line)
    assert warned[0] < ended < warned[-1]
    assert list(outputs(yard)) == ["kept.pt"]


def test_a_job_that_keeps_no_outputs_is_not_warned(yard: Yard) -> None:
    yard.prepare(WRITES_ELSEWHERE, outputs={"keep": False})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    assert not yard.hear("finished").get("but")


def test_a_resumed_run_that_is_interrupted_before_all_is_copied_still_finds_the_rest(yard: Yard) -> None:
    """Test an interrupted restart. The first attempt uploaded one of three changed files before its host was lost."""
    other = f"{yard.run}-before"

    def known(*files: int, **more: Any) -> str:
        rows = {f"outputs/000000{step}.ckpt": [1, step * 10**9, step * 10**9, ""] for step in files}
        empty: dict[str, Any] = {
            "attempt": 1,
            "earlier": {},
            "folders": [],
            "snapshot": None,
            "snapshot_links": {},
        }
        return json.dumps({**empty, "files": rows, "links": {}, **more})

    for step in "123":
        yard.put(f"runs/{other}/outputs/outputs/000000{step}.ckpt", step)
    yard.put(f"runs/{other}/outputs-of/chief-0/files.json", known(1, 2, 3))
    yard.put(f"runs/{yard.run}/outputs/outputs/0000002.ckpt", "b")
    yard.put(f"runs/{yard.run}/outputs-of/chief-0/files.json", known(2, inherits=True))
    yard.prepare(CONTINUES, checkpoints={"steps": 0, "seconds": 120.0, "keep": 3, "resume": other})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 2)
    yard.hear("finished", 2)
    log = yard.log(2)
    for step, text in (("1", "1"), ("2", "b"), ("3", "3")):
        assert f"outputs/000000{step}.ckpt {text}" in log, log
    assert outputs(yard) == {"outputs/0000002.ckpt": "changed by the new run", "outputs/0000003.ckpt": "3"}
    assert listed(yard)["inherits"] is False


def test_a_run_that_resumes_another_inherits_until_all_of_it_is_uploaded(yard: Yard) -> None:
    other = f"{yard.run}-before"
    yard.put(f"runs/{other}/outputs/table.csv", "1")
    known: dict[str, Any] = {
        "attempt": 1,
        "earlier": {},
        "folders": [],
        "snapshot": None,
        "snapshot_links": {},
    }
    files = {"table.csv": [1, 10**9, 10**9, ""]}
    yard.put(
        f"runs/{other}/outputs-of/chief-0/files.json", json.dumps({**known, "files": files, "links": {}})
    )
    program = "import pathlib; print('table', pathlib.Path('table.csv').read_text(), flush=True)"
    yard.prepare(program, checkpoints={"steps": 0, "seconds": 120.0, "keep": 3, "resume": other})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    assert "table 1" in yard.log()
    assert outputs(yard) == {"table.csv": "1"}, "the run's own outputs are all that its working folder holds"
    assert listed(yard)["inherits"] is False
