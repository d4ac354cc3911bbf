"""Programs without any use of Trainyard: their logs, curves, checkpoints and ends."""

import json
import os
import re
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.agent.host import INSTANCE, Yard
from tests.contract.conftest import eventually
from training.host.agent.deadlines import drain

KEEPS_A_FOLDER = """
import os, pathlib, time

folder = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"], "mine")
folder.mkdir(exist_ok=True)
newest = folder / "checkpoint"
done = int(newest.read_text().rpartition("-")[2].strip('"\\n')) if newest.exists() else 0
print("found", sorted(path.name for path in folder.iterdir()), flush=True)


def save(step):
    (folder / f"ckpt-{step}.data").write_text("weights of %d" % step)
    (folder / f"ckpt-{step}.index").write_text("names of %d" % step)
    half = folder / "checkpoint.half"
    half.write_text(f'model_checkpoint_path: "ckpt-{step}"\\n')
    half.replace(newest)


if not done:
    save(3)
    time.sleep(60)
save(done + 1)
"""


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that a program gets to stop."""
    monkeypatch.setattr(drain, "GRACE", timedelta(seconds=12))


def test_a_script_keeps_its_folder_over_an_interruption_it_knows_nothing_of(yard: Yard) -> None:
    yard.prepare(KEEPS_A_FOLDER)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    assert "step" not in yard.hear("checkpointed")
    yard.order("stop", 1)
    stopped = yard.hear("stopped")
    assert (stopped.get("step"), stopped["why"]) == (None, "asked"), "the checkpoint's name is not a step"
    first = yard.latest
    assert (first["kind"], first["key"]) == ("folder", f"runs/{yard.run}/checkpoints/00000003/")
    saved = set(yard.checkpoint(first))
    assert saved == {"mine/checkpoint", "mine/ckpt-3.data", "mine/ckpt-3.index"}

    yard.hear("ready", attempt=2)
    yard.order("start", 2, checkpoint={"step": 3, "key": first["key"]})
    yard.hear("finished", attempt=2)
    assert "found ['checkpoint', 'ckpt-3.data', 'ckpt-3.index']" in yard.log(2)
    assert set(yard.checkpoint()) == saved | {"mine/ckpt-4.data", "mine/ckpt-4.index"}
    assert [older["step"] for older in yard.latest["before"]] == [3]


SAVES_NOW_AND_THEN = """
import os, pathlib, time

folder = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"])
for epoch in range(1, 100):
    time.sleep(5)
    half = folder / ".half"
    half.write_text("weights of %d" % epoch)
    half.replace(folder / ("weights-%d" % epoch))
    print("saved", epoch, flush=True)
"""


def test_a_script_that_does_not_hear_sigterm_saves_once_more_before_it_gets_it(yard: Yard) -> None:
    yard.prepare(SAVES_NOW_AND_THEN)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    before = set(yard.checkpoint())
    yard.order("stop", 1)
    stopped = yard.hear("stopped")
    assert (stopped["why"], stopped.get("step")) == ("asked", None)
    assert set(yard.checkpoint()) > before
    assert "has no handler for SIGTERM: it continues until its next checkpoint is uploaded" in yard.log()


def test_a_program_that_leaves_nothing_says_so(yard: Yard) -> None:
    yard.prepare("print('hello')")
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    said = "it left no model, checkpoint, metrics or outputs: it wrote no file into its working folder"
    assert yard.hear("finished")["working_folder"] == said
    assert said in yard.log()


LEAVES_A_HALF = """
import os, pathlib, time

folder = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"], "ckpt-1_temp")
folder.mkdir()
(folder / "part-00000-of-00002.index").write_text("names")
(folder / "part-00000-of-00002.data-00000-of-00001").write_text("weights")
(folder.parent / "ckpt-2.data-00000-of-00001").write_text("weights")
time.sleep(4)
raise ValueError("ckpt-1_temp/part-00001-of-00002.index is not there")
"""


def test_half_a_checkpoint_is_taken_for_none(yard: Yard) -> None:
    yard.prepare(LEAVES_A_HALF)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    assert yard.hear("failed")["kind"] == "program"
    assert not yard.keys(f"runs/{yard.run}/checkpoints/")


SAYS_GOODBYE = """
import os, pathlib, signal, sys, time

folder = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"])


def leave(*_):
    (folder / "weights-9").write_text("weights of 9")
    {last_act}


signal.signal(signal.SIGTERM, leave)
print("trains", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("last_act", "word", "why"),
    [
        ("sys.exit(3)", "stopped", "limit"),
        ("raise KeyboardInterrupt", "stopped", "limit"),
        ("raise ValueError('no room for weights')", "failed", None),
    ],
)
def test_at_its_cap_a_program_leaves_with_whatever_code_but_its_own_error_is_told(
    yard: Yard, last_act: str, word: str, why: str | None
) -> None:
    yard.prepare(SAYS_GOODBYE.replace("{last_act}", last_act))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, deadline=(datetime.now(UTC) + timedelta(seconds=8)).isoformat())
    said = yard.hear(word)
    assert said.get("why") == why
    if last_act == "sys.exit(3)":
        assert set(yard.checkpoint()) == {"weights-9"}, "what it saved on its way out is kept"
    if word == "failed":
        assert "ValueError: no room for weights" in said["reason"]


SAME_STEP_AGAIN = """
import os, pathlib, time

weights = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"], "weights.h5")
for epoch in range(1, 5):
    weights.write_text("epoch %d" % epoch)
    time.sleep(4)
"""


def test_a_file_that_is_written_over_is_a_new_checkpoint_each_time_and_few_are_kept(yard: Yard) -> None:
    yard.prepare(
        SAME_STEP_AGAIN,
        checkpoints={"steps": 0, "seconds": 120.0, "keep": 2},
        program={"expect": ["checkpoint"]},
    )
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    kept = [yard.latest, *yard.latest["before"]]
    assert [yard.checkpoint(one)["weights.h5"] for one in kept] == ["epoch 4", "epoch 3"]
    keys = yard.keys(f"runs/{yard.run}/checkpoints/")
    folders = {
        key.split("/")[3] for key in keys if not key.startswith(tuple(f"{one['key'][:-1]}.j" for one in kept))
    }
    assert folders == {"latest.json", *(one["key"].split("/")[3] for one in kept)}


SAVES_ALL_THE_TIME = """
import os, pathlib, time

weights = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"], "weights.h5")
for epoch in range(1, 200):
    weights.write_text("epoch %d" % epoch)
    time.sleep(0.6)
"""


def test_a_program_that_saves_more_often_than_anybody_looks_has_checkpoints_all_the_same(yard: Yard) -> None:
    yard.prepare(SAVES_ALL_THE_TIME, program={"expect": ["checkpoint"]})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    assert yard.hear("checkpointed")["key"].endswith("/00000001/")
    assert yard.checkpoint()["weights.h5"].startswith("epoch ")


TALKS = r"""
import json, os, pathlib, sys, time

print("one", flush=True)
sys.stdout.buffer.write("für\n".encode("latin-1"))
for part in range(1, 4):
    print(f"\r{part}/9 " + "=" * part, end="", flush=True)
with open(os.environ["TRAINYARD_PROGRESS"], "a") as lines:
    for step in range(1, 2001):
        lines.write(json.dumps({"step": step, "steps": 4000, "loss": 1 / step}) + "\n")
    lines.write(json.dumps({"step": 2001, "loss": float("nan")}) + "\n")
events = pathlib.Path(os.environ["TRAINYARD_TENSORBOARD"])
events.mkdir(parents=True)
(events / "events.out").write_text("curve")
while not pathlib.Path("go").exists():
    time.sleep(0.1)
print("\r9/9 done")
metrics = {"accuracy": 0.5, "loss": float("nan"), "history": [1, 2]}
pathlib.Path(os.environ["TRAINYARD_METRICS"]).write_text(json.dumps(metrics))
"""
STAMPED = rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z chief-0 {INSTANCE} \| (.*)$"


def test_log_curve_and_events_are_in_the_bucket_while_the_program_runs(yard: Yard) -> None:
    yard.prepare(TALKS)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    warning = (
        "[trainyard] the loss has been NaN since step 2001. The program continues, and its hosts are billed. "
        f"To stop it: trainyard stop {yard.run}"
    )
    eventually(lambda: warning in yard.log())
    assert re.findall(STAMPED, yard.log(), re.MULTILINE)[-4:] == ["one", r"f\xfcr", "3/9 ===", warning]
    eventually(lambda: json.loads(_there(yard, "metrics.json") or "{}").get("step") == 2001)
    metrics = json.loads(_there(yard, "metrics.json"))
    assert metrics["steps"] == 4000
    assert len(metrics["samples"]) <= 500
    assert (metrics["samples"][0]["step"], metrics["samples"][-1]["step"]) == (1, 2001)
    assert metrics["samples"][-1]["loss"] == "NaN"
    assert eventually(lambda: _there(yard, "tensorboard/events.out")) == "curve"

    (yard.paths.program / "go").touch()
    finished = yard.hear("finished")
    assert (finished["step"], finished["accuracy"], finished.get("loss")) == (
        2001,
        0.5,
        "NaN",
    )
    assert finished["nan_since"] == 2001
    whole = json.loads(yard.read(f"runs/{yard.run}/metrics.json"))
    assert (whole["history"], whole["accuracy"], whole["step"]) == ([1, 2], 0.5, 2001)
    lines = yard.log().splitlines()
    assert all(re.match(STAMPED, line) for line in lines)
    assert [line.partition(" | ")[2] for line in lines][1:] == [
        "one",
        r"f\xfcr",
        "3/9 ===",
        warning,
        "9/9 done",
        "[trainyard] the program ended with exit code 0",
        "[trainyard] outputs: 1 file, 0 B",  # go
    ]
    assert lines == sorted(lines, key=lambda line: line.split()[0])


def _there(yard: Yard, name: str) -> str:
    key = f"runs/{yard.run}/{name}"
    return yard.read(key) if yard.keys(key) else ""


@pytest.mark.parametrize(
    ("code", "program", "words"),
    [
        (
            "print('bye')",
            {"expect": ["model"]},
            "ended with 0, but left no model, which program.expect requires",
        ),
        (
            "import pandas_that_nobody_has",
            {},
            "add pandas_that_nobody_has to the file that program.requirements",
        ),
        ("raise SystemExit('give me --epochs')", {}, "its last line: give me --epochs"),
        (
            "print('${', __import__('sys').argv)",
            {"args": {"where": "${nowhere}"}},
            "${nowhere} is not defined",
        ),
    ],
)
def test_wrong_use_gets_one_clear_reason(yard: Yard, code: str, program: dict[str, Any], words: str) -> None:
    yard.prepare(code, program=program)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert failed["kind"] == "program"
    assert words in failed["reason"]


def test_a_program_without_words_of_its_own_is_told_its_place(yard: Yard) -> None:
    yard.prepare(
        "import os, sys; print(sys.argv[1:], os.environ['WHERE'], os.environ['TRAINYARD_IMAGE'])",
        program={
            "args": {"ps_hosts": "${ps_hosts}", "n": "${task_index}"},
            "environment": {"WHERE": "${data.train}"},
        },
    )
    yard.start_agent()
    yard.hear("ready")
    hosts = [
        {"instance": INSTANCE, "role": "chief", "index": 0, "address": "10.0.1.5"},
        {"instance": "i-2", "role": "worker", "index": 0, "address": "10.0.1.6"},
        {"instance": "i-3", "role": "ps", "index": 0, "address": "10.0.1.7"},
    ]
    yard.order("start", 1, strategy="parameter_server", hosts=hosts)
    yard.hear("finished")
    expected = (
        f"['--ps_hosts', '10.0.1.7:2222', '--n', '0'] {yard.paths.data / 'train'} ami-0123456789abcdef0"
    )
    assert expected in yard.log()


def test_a_frozen_program_is_stopped_like_any_other(yard: Yard) -> None:
    yard.prepare("import time; print('up', flush=True); time.sleep(60)")
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    eventually(lambda: "up" in yard.log())
    os.killpg(yard.program_id(), signal.SIGSTOP)
    yard.order("stop", 1)
    assert yard.hear("stopped")["why"] == "asked"
    assert yard.hear("ready", attempt=2)


SERVES = """
import signal, sys, time

signal.signal(signal.SIGTERM, lambda *_: sys.exit("the cluster is gone"))
print("serving", flush=True)
time.sleep(60)
"""


def test_a_parameter_server_that_ends_badly_with_its_run_is_no_failure(yard: Yard) -> None:
    yard.prepare(SERVES)
    yard.start_agent()
    yard.hear("ready")
    hosts = [
        {"instance": "i-1", "role": "chief", "index": 0, "address": "10.0.1.6"},
        {"instance": INSTANCE, "role": "ps", "index": 0, "address": "10.0.1.5"},
    ]
    yard.order("start", 1, strategy="parameter_server", hosts=hosts)
    assert yard.hear("started")["role"] == "ps"
    eventually(lambda: "serving" in yard.log(name="ps-0"))
    yard.order("stop", 1)
    assert yard.hear("stopped")["why"] == "asked"
