import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from training.host.reporting.progress import Progress, metrics_in, resumed_in
from trainyard.protocol import signals
from trainyard.protocol.signals import Resumed, Sent

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_progress_is_said_at_once_then_every_ten_seconds(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    progress = Progress(path, started=0)
    assert progress.due(1) is None
    path.write_text('{"step": 1, "loss": 2.5, "else": "1"}\n{"step": 2')
    progress.update()
    assert progress.due(2) == {"step": 1, "loss": 2.5}
    with path.open("a") as lines:
        lines.write(', "loss": 2.0}\nno json\n')
    progress.update()
    assert progress.due(5) is None
    assert progress.due(12) == {"step": 2, "loss": 2.0}
    assert progress.due(71) is None
    assert progress.due(72) == {"step": 2, "loss": 2.0}


def test_once_a_minute_it_is_said_that_the_host_lives_whatever_its_program_does() -> None:
    progress = Progress(Path("/nowhere"), started=0)
    assert [second for second in range(200) if progress.due(second) is not None] == [60, 120, 180]


@pytest.mark.parametrize(
    ("sentence", "said", "passed_on"),
    [
        (
            "only known facts are passed on",
            {"step": 3, "loss": 0.5, "colour": "red"},
            {"step": 3, "loss": 0.5},
        ),
        ("a count is whole", {"step": 3.0, "epoch": 1.9}, {"step": 3, "epoch": 1}),
        ("a number must not be text", {"step": "3", "loss": "low"}, {}),
        ("true is not a number", {"step": True}, {}),
        ("an infinite loss is one", {"step": 4, "loss": float("-inf")}, {"step": 4, "loss": float("-inf")}),
        ("also as strict JSON has it", {"loss": "-Infinity"}, {"loss": float("-inf")}),
        ("a pace has an end", {"steps_per_second": float("inf")}, {}),
        ("nor is a count without end", {"step": float("inf"), "epoch": float("nan")}, {}),
        ("a step that no ledger could hold is none", {"step": 10**40}, {}),
        ("nor is one that no float could hold", {"step": 10**400, "loss": 1.0}, {"loss": 1.0}),
    ],
)
def test_only_what_the_ledger_can_hold_is_passed_on(
    sentence: str, said: dict[str, Any], passed_on: dict[str, Any]
) -> None:
    assert metrics_in(said) == passed_on, sentence


def test_a_loss_that_became_nan_goes_on_with_the_step_since_when(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    progress = Progress(path, started=0)

    def reported(*lines: str) -> dict[str, Any]:
        with path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        progress.update()
        signal = signals.Progress(**progress.all)
        said = signals.encode(Sent(run="r", attempt=1, instance="i", at=NOON, signal=signal))
        assert json.loads(json.dumps(said, allow_nan=False)) == said
        return said

    assert "nan_since" not in reported('{"step": 1, "loss": 0.5}')
    told = reported('{"step": 2, "loss": NaN}', '{"step": 3, "loss": NaN}', '{"step": 4}')
    assert (told["step"], told["nan_since"]) == (4, 2)
    told = reported('{"step": 5, "loss": "NaN"}')
    assert (told["loss"], told["nan_since"]) == ("NaN", 2)
    assert "nan_since" not in reported('{"step": 6, "loss": 0.4}')


def test_what_was_restored_is_said_in_every_progress(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(
        '{"step": 121, "resumed": {"step": 120, "batch": 7, "verified": true, "else": 1}}\n{"step": 122}\n'
    )
    progress = Progress(path, started=0)
    progress.update()
    assert progress.due(1) == {
        "step": 122,
        "resumed": Resumed(step=120, batch=7, verified=True),
    }


@pytest.mark.parametrize("said", [{}, {"resumed": 5}, {"resumed": {"verified": True}}])
def test_no_step_nothing_restored(said: dict[str, Any]) -> None:
    assert resumed_in(said) is None


def test_what_is_no_file_in_its_place_is_waited_for_by_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "nothing"):
        assert Progress(tmp_path / name, started=0.0).update() == []
