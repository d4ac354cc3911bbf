"""The trials of a study in a file: a table, or a database of Optuna."""

from __future__ import annotations

import csv
from pathlib import Path

from trainyard.client.errors import FileUnreadable, NotHere
from trainyard.client.study import Study

COLUMNS = ("trial", "run", "state", "value", "step", "dollars", "asked", "started", "reported", "reason")


def write_csv(study: Study, file: Path) -> int:
    """Write a table with a row for each trial, and a column for each parameter; return the number of trials."""
    rows = [trial.row for trial in study.trials]
    paths = sorted({path for row in rows for path in row.values})
    _check_new(file)
    try:
        with file.open("x", newline="", encoding="utf-8") as opened:
            table = csv.writer(opened)
            table.writerow([*COLUMNS, *paths])
            for row in rows:
                known = {"trial": row.number, "run": row.run_of(study.id), "state": row.state.value}
                cells = [known[name] if name in known else getattr(row, name) for name in COLUMNS]
                table.writerow([*cells, *(row.values.get(path) for path in paths)])
    except OSError as error:
        raise FileUnreadable.of(error) from error
    return len(rows)


def write_optuna(study: Study, file: Path) -> int:
    """Write a SQLite database that `optuna.load_study` reads; return the number of ended trials. Raise NotHere without
    Optuna."""
    try:
        from trainyard.core import optuna_trials
    except ModuleNotFoundError as missing:
        raise NotHere(
            f"this computer has no {missing.name}",
            "Optuna writes this file, so no file was written",
            "pip install 'trainyard[optuna]', and try again; --csv FILE needs no package",
        ) from missing
    _check_new(file)
    rows, part = [trial.row for trial in study.trials], file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        count = optuna_trials.export(study.section, study.id, rows, f"sqlite:///{part.absolute()}")
        part.replace(file)
    except OSError as error:
        raise FileUnreadable.of(error) from error
    return count


def _check_new(file: Path) -> None:
    if file.exists():
        raise FileUnreadable(
            f"{file} exists already", "it was not changed", "delete it, or name another file"
        )
