"""A program with all its files in the working folder continues after an interruption and in another run."""

import re
from pathlib import Path
from typing import Any

from tests.e2e.published import script
from tests.e2e.runs import Runs
from trainyard.client import Run

CONTINUES = re.compile(r"continuing at (\d+), by (\S+),")


def a_job(runs: Runs, *, steps: int, pause: float, **changes: Any) -> dict[str, Any]:
    job = script(runs, "keeps_in_its_folder", **changes)
    job["program"]["args"] = [steps, pause]
    return job | {"outputs": {"restore": True}}


def begun(run: Run, attempt: int = 1) -> tuple[int, str]:
    """Return the first step of an attempt, and the file with this step."""
    found = CONTINUES.search(run.log(attempt=attempt))
    assert found, run.log(attempt=attempt)
    return int(found[1]), found[2]


def kept(runs: Runs, run: Run, least: int) -> int:
    """Wait for a state of this step or a later one among the outputs; return the newest."""
    states = re.compile(r"outputs/states/(\d{7})\.txt")

    def newest() -> int:
        steps = [int(found[1]) for key in run.keys if (found := states.fullmatch(key))]
        return max(steps, default=0) if max(steps, default=0) >= least else 0

    return int(runs.until(f"a state of step {least} among the outputs", newest))


def test_a_program_continues_with_its_outputs_and_the_user_gets_every_file(
    runs: Runs, tmp_path: Path
) -> None:
    run = runs.start(a_job(runs, steps=100_000, pause=0.3))
    first = kept(runs, run, 5)
    runs.cloud.fault("interrupt", runs.host_of(run, "chief"))
    runs.until("attempt 2 among the outputs", lambda: CONTINUES.search(run.log(attempt=2)))
    step, state = begun(run, attempt=2)
    assert step >= first
    assert state == f"states/{step:07d}.txt", "newest by its time"
    second = kept(runs, run, step + 10)
    run.stop()
    runs.finish(run)
    summary = run.summary
    assert (summary["outcome"], [each["ending"] for each in summary["attempts"]]) == (
        "stopped",
        ["interrupted", "stopped"],
    )
    assert (summary["resume"]["resumed_at"], summary["resume"]["steps_lost"]) == ([None], None)
    assert summary["outputs"]["files"] >= 4
    assert summary["outputs"]["left_out"] == []
    losses = [sample["loss"] for sample in run.latest_metrics["samples"]]
    assert 0 < losses[-1] < losses[0], "TensorBoard's events below the working folder make the curve"
    assert run.fetch_events(tmp_path / "tb") == 2, "one file an attempt, as TensorBoard reads them"

    # Another run that resumes this one has no checkpoint, only these outputs.
    resumed = runs.run(a_job(runs, steps=second + 20, pause=0.0, checkpoints={"resume": run.id}))
    assert resumed.succeeded, resumed.why()
    assert begun(resumed)[0] >= step
    rows = int(resumed.log().partition("rows: ")[2].split()[0])
    assert rows > second + 20 - begun(resumed)[0], "its log was continued"
    resumed.fetch("everything", tmp_path / "got")
    outputs = tmp_path / "got" / "outputs"
    assert (outputs / "model.keras").read_bytes() == b"a model"
    assert len((outputs / "history.csv").read_text().splitlines()) == rows
    assert (outputs / "latest").is_symlink()
    assert (outputs / "latest").read_text() == (
        outputs / f"states/{(second + 20) // 5 * 5:07d}.txt"
    ).read_text()
    assert resumed.summary["outputs"]["files"] >= 4
