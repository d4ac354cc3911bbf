"""Submit notebooks as a user does; hosts execute them, and the bucket has their outputs."""

from pathlib import Path
from typing import Any

from tests.e2e.runs import Runs
from tests.support.notebooks import notebook, printed_text
from trainyard.client import Run

TRAINS = """
import numpy as np
import tensorflow as tf
from trainyard.runtime import start
runtime = start(seed=1)
values = np.random.default_rng(1).normal(size=(64, 1)).astype("float32")
"""
SHELL = """
folders = !ls -d res*
took = %timeit -o -q -n1 -r1 sum(range(9))
print("folders", list(folders), type(took).__name__)
"""
FITS = """
import tf_keras
model = tf_keras.Sequential([tf_keras.layers.Input((1,)), tf_keras.layers.Dense(1)])
model.compile(optimizer=tf_keras.optimizers.SGD(rate), loss="mse")
history = model.fit(values, 3 * values, epochs=epochs, verbose=0)
history.history["loss"][-1] < 0.01, tf.config.get_visible_devices("CPU") != []
"""


def test_a_notebook_trains_on_a_host_and_one_with_a_cell_that_fails_ends_with_its_number(
    runs: Runs, tmp_path: Path
) -> None:
    trains, fails = tmp_path / "train.ipynb", tmp_path / "fail.ipynb"
    parameters = "# how many epochs?\n%precision 3\nepochs = 1\nrate = .001"
    trains.write_text(notebook("mkdir results", SHELL, TRAINS, FITS, parameters=parameters))
    fails.write_text(notebook("print('begun')", "{}['accuracy']", "print('never')"))
    trained = runs.yard.submit(trains, set={"args.epochs": "60", "args.rate": "0.1"})
    failed = runs.yard.submit(fails)
    assert runs.finish(trained).succeeded, trained.why()
    *_, shell, _, last = cells_of(trained)
    assert printed_text(shell) == "folders ['results'] TimeitResult\n"
    assert last["outputs"][-1]["data"]["text/plain"] == ["(True, True)"]
    assert trained.summary["where"]["notebook"].endswith(f"runs/{trained.id}/notebook/")
    assert trained.reason().advice[0] == f"trainyard get {trained.id} notebook"
    assert "cell [2] of fail.ipynb: KeyError: 'accuracy'" in runs.finish(failed).summary["reason"]
    first, second, third = cells_of(failed)
    assert first["outputs"][0]["text"] == ["begun\n"]
    assert (second["outputs"][-1]["ename"], third["outputs"]) == ("KeyError", [])


def cells_of(run: Run) -> list[dict[str, Any]]:
    """Return the cells of the executed notebook."""
    (name,) = (key for key in run.keys if key.startswith("notebook/"))
    cells: list[dict[str, Any]] = run.json(name)["cells"]
    return cells
