"""Progress of programs without any use of Trainyard: from TensorBoard's events, or from the job's pattern."""

import json
from pathlib import Path
from typing import Any

import pytest
import tensorboard

from tests.contract.agent.host import Yard
from tests.contract.conftest import eventually

WRITES_EVENTS = (
    f"import sys; sys.path.append({str(Path(tensorboard.__file__).parents[1])!r})"
    """
import os, pathlib, struct, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

folder = pathlib.Path(os.environ["TRAINYARD_TENSORBOARD"]) / "train"
writer = EventFileWriter(str(folder))

def epoch(number):
    for name, value in (("epoch_loss", 1 / (number + 1)), ("epoch_accuracy", 1 - 1 / (number + 1))):
        tensor = TensorProto(dtype=1, tensor_content=struct.pack("<f", value))
        summary = Summary(value=[Summary.Value(tag=name, tensor=tensor)])
        writer.add_event(Event(wall_time=time.time(), step=number, summary=summary))
    writer.flush()

epoch(0)
epoch(1)
while not pathlib.Path("go").exists():
    time.sleep(0.1)
epoch(3)
writer.close()
"""
)
PRINTS = """
import pathlib, time
print("Epoch 1/2")
for step in range(1, 10):
    print(f"\\rstep {step}/20 - loss: {1 / step}", end="", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.1)
print()
print("Epoch 2/2")
print("step 20/20 - loss: nan")
print("step 1000000000000000000/20 - loss: 0.0")
"""
PATTERN = r"Epoch (?P<epoch>\d+)|step (?P<step>\d+)/(?P<steps>\d+).*loss: (?P<loss>\S+)"


def go(yard: Yard) -> None:
    (yard.paths.program / "go").touch()


def test_the_scalars_that_it_writes_for_tensorboard_are_its_progress_over_a_restart_of_the_agent(
    yard: Yard,
) -> None:
    yard.prepare(WRITES_EVENTS)
    service = yard.metadata()
    with yard.agent_process(service):
        yard.hear("ready")
        yard.order("start", 1)
        first = yard.hear("progress")
        assert (first["step"], first["epoch"], first["loss"], first["accuracy"]) == (2, 2, 0.5, 0.5)
        eventually(lambda: len(metrics(yard).get("samples", [])) == 2)
    with yard.agent_process(service):
        go(yard)
        finished = yard.hear("finished")
    assert (finished["step"], finished["loss"], finished["epoch"]) == (4, 0.25, 4)
    assert [(each["step"], each["loss"]) for each in metrics(yard)["samples"]] == [
        (1, 1.0),
        (2, 0.5),
        (4, 0.25),
    ]


def test_what_it_prints_is_its_progress_by_the_pattern_of_its_job(yard: Yard) -> None:
    yard.prepare(PRINTS, program={"progress": PATTERN})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    first = yard.hear("progress")
    assert (first["epoch"], first["steps"]) == (1, 20)
    go(yard)
    finished = yard.hear("finished")
    assert (finished["step"], finished["epoch"], finished["steps"]) == (20, 2, 20)
    assert metrics(yard)["samples"][-1]["step"] <= 20
    json.dumps(metrics(yard), allow_nan=False)


KERAS = """
import pathlib, time
for epoch in (1, 2):
    print(f"Epoch {epoch}/2")
    for at in range(1, 41):
        loss = 1 / (40 * epoch + at - 40)
        print(f"\\r{at}/40 \u2501\u2501 0s 2ms/step - accuracy: 0.5 - loss: {loss}", end="", flush=True)
    print(f"\\r40/40 \u2501\u2501 0s 2ms/step - accuracy: 0.5 - loss: {1 / (40 * epoch)} - val_loss: 7.0")
    while not pathlib.Path("go").exists():
        time.sleep(0.1)
print("step 1 loss 9.0")
print("7/7 \u2501\u2501 0s 2ms/step - accuracy: 0.1 - loss: 5.0")
"""


def test_what_keras_prints_is_its_progress_though_the_job_says_nothing_of_it(yard: Yard) -> None:
    yard.prepare(KERAS)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    first = yard.hear("progress")
    assert (first["step"], first["steps"], first["epoch"], first["accuracy"]) == (40, 80, 1, 0.5)
    go(yard)
    finished = yard.hear("finished")
    assert (finished["step"], finished["epoch"], finished["loss"]) == (80, 2, 1 / 80)
    assert [(each["step"], each["loss"]) for each in metrics(yard)["samples"]][-1] == (80, 1 / 80)


def test_the_objective_that_it_prints_is_in_its_signals_by_step(yard: Yard) -> None:
    code = "for e in range(1, 4):\n    print(f'Epoch {e}/3 - loss: {1 / e}')\n    print(f'val_f1: {e / 4}', flush=True)"
    yard.prepare(code, objective={"metric": "val_f1", "goal": "maximize"})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    finished = yard.hear("finished")
    assert finished["objective"][-1] == {"step": 3, "epoch": 3, "value": 0.75}
    assert finished["scalars"] == {"val_f1": 0.75}
    assert metrics(yard)["scalars"]["val_f1"][-1][:2] == [3, 0.75]
    assert metrics(yard)["val_f1"] == 0.75


def test_a_loss_that_becomes_nan_is_nan_in_signals_and_metrics_and_a_warning_in_the_log(yard: Yard) -> None:
    yard.prepare(
        "for step in range(1, 6):\n    print(f'step {step} loss {0.5 if step < 3 else float(\"nan\")}')"
    )
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    finished = yard.hear("finished")
    assert (finished["step"], finished["loss"], finished["nan_since"]) == (5, "NaN", 3)
    assert finished["but"] == ["its loss has been NaN since step 3"]
    assert [each["loss"] for each in metrics(yard)["samples"]] == [0.5, 0.5, "NaN", "NaN", "NaN"]
    assert yard.log().count("[trainyard] the loss has been NaN since step 3. The program continues") == 1


@pytest.mark.parametrize("pattern", [r"(?P<step>(x{1000}){1000})"])
def test_a_pattern_that_hosts_do_not_take_is_final_and_named(yard: Yard, pattern: str) -> None:
    yard.prepare("print('never')", program={"progress": pattern})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert (failed["kind"], failed["final"]) == ("program", True)
    assert "program.progress is not a valid pattern of RE2" in failed["reason"]


@pytest.mark.parametrize(
    ("made", "own", "expected"),
    [
        ("0", None, {"score": 0.75}),
        ("-9e8", None, {}),  # it came with the source
        ("0", {"score": 0.5}, {"score": 0.5}),
    ],
)
def test_the_objective_of_a_plain_script_counts_in_its_working_folder(
    yard: Yard, made: str, own: dict[str, float] | None, expected: dict[str, float]
) -> None:
    written = f"pathlib.Path(os.environ['TRAINYARD_METRICS']).write_text('{json.dumps(own)}')" if own else ""
    yard.prepare(
        f"""
        import json, os, pathlib, time
        pathlib.Path('metrics.json').write_text(json.dumps({{'score': 0.75, 'other': 1}}))
        os.utime('metrics.json', (time.time() + {made},) * 2)
        {written}
        """,
        objective={"metric": "score", "goal": "maximize"},
    )
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    found = metrics(yard)
    assert {name: found[name] for name in ("score", "other") if name in found} == expected


def metrics(yard: Yard) -> dict[str, Any]:
    key = f"runs/{yard.run}/metrics.json"
    found: dict[str, Any] = json.loads(yard.read(key)) if yard.keys(key) else {}
    return found
