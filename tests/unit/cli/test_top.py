"""The table of `top`."""

import pytest

from trainyard.cli.output import terminal, use
from trainyard.client.runs.use import charts_of
from trainyard.core.model.host_use import HostUse


def host(role: str, gpus: int = 0, **values: float) -> HostUse:
    made = HostUse(
        instance=f"i-{role[:2]}", role=role, processors=8, memory=32_000, gpus=gpus, at=[], columns={}
    )
    made.add(1_780_000_000, {name.replace("__", "."): value for name, value in values.items()})
    return made


def test_each_gpu_has_a_row_and_a_host_without_one_has_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal.console, "_width", 200)  # a narrow terminal leaves columns out
    gpus = {"gpu__0": 39.4, "gpu__1": 40.0, "gpu_watts__1": 71.0}
    use.show(
        [host("chief 0", 2, processors=3.25, input=61.2, disk_read=12.0, **gpus), host("ps 0", memory=512.0)]
    )
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["role", "host", "GPU"]
    assert [row.split()[:3] for row in rows] == [
        ["chief", "0", "i-ch"],
        ["1", "40", "71"],
        ["ps", "0", "i-ps"],
    ]
    assert "3.2 of 8" in rows[0]
    assert "12.0 / -" in rows[0]
    assert "512" in rows[2]


def test_a_run_without_records_says_when_there_are_some(capsys: pytest.CaptureFixture[str]) -> None:
    use.show([])
    assert use.EMPTY in capsys.readouterr().err


def test_charts_have_a_value_for_each_minute_and_a_curve_for_each_gpu() -> None:
    chief = host("chief 0", 2, input=50.0, gpu_watts__0=70.0, gpu_watts__1=71.0)
    chief.add(1_780_000_019, {"input": 60.0})
    waits, watts = charts_of([chief, host("worker 1", input=2.0)])
    assert (waits.measure.title, waits.measure.unit, len(waits.times)) == ("Wait for input", "%", 1)
    assert waits.hosts == {"chief 0": (60.0,), "worker 1": (2.0,)}
    assert watts.hosts == {"chief 0, GPU 0": (70.0,), "chief 0, GPU 1": (71.0,)}


def test_all_values_are_in_json_with_their_units() -> None:
    told = use.as_json(host("chief 0", 1, gpu__0=5.0))
    assert (told["columns"], told["units"]) == ({"gpu.0": [5.0]}, {"gpu.0": "%"})
