"""Recognize the launcher that a file is written for, and convert the file."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trainyard.client.errors import JobRefused, NotImportable
from trainyard.client.importing import (
    batch,
    batch_ai,
    calls,
    dstack,
    estimator,
    notebook,
    optuna_script,
    ray_tune,
    sagemaker,
    sagemaker_tuning,
    skypilot,
    slurm,
)
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.foreign import Foreign, Keys, content_of, read_json, read_yaml, show_path
from trainyard.client.jobs.source import read


class Kind(NamedTuple):
    """One kind of file in YAML or JSON. `recognizes` returns the path of a key that only this launcher has, or None.
    `convert` takes the file and a name for the job."""

    launcher: str
    recognizes: Callable[[Foreign], Keys | None]
    convert: Callable[[Foreign, str], Draft]


KINDS = (
    Kind(dstack.LAUNCHER, dstack.recognizes, dstack.convert),
    Kind(skypilot.LAUNCHER, skypilot.recognizes, skypilot.convert),
    Kind(sagemaker.LAUNCHER, sagemaker.recognizes, sagemaker.convert),
    Kind(sagemaker.LAUNCHER, sagemaker_tuning.recognizes, sagemaker_tuning.convert),
    Kind(batch.LAUNCHER, batch.recognizes, batch.convert),
    Kind(batch_ai.LAUNCHER, batch_ai.recognizes, batch_ai.convert),
)
KNOWN = (
    "a SkyPilot task, a dstack task, a CreateTrainingJob or CreateHyperParameterTuningJob request or an estimator's "
    "call of SageMaker, a script for Optuna or Ray Tune, a Slurm batch script, a job definition of AWS Batch, or a job "
    "of Azure Batch AI"
)


def import_file(path: Path) -> Draft:
    """Convert the file. Raise OSError, or NotImportable for a file of an unknown kind or of two kinds at once."""
    text = content_of(path)
    if slurm.recognizes_text(text):
        draft = slurm.convert(slurm.read_script(text), path.stem)
    elif path.suffix in (".py", ".ipynb"):
        code = notebook.code_of(text, path.name) if path.suffix == ".ipynb" else text
        draft = _script(path, code)
    else:
        draft = _document(path, text)
    draft.finish()
    return draft


def _script(path: Path, code: str) -> Draft:
    tree = calls.parse(code, path.name)
    found: list[tuple[str, Callable[[Foreign, str], Draft], Foreign]] = []
    if call := estimator.read_estimator(tree, path.name):
        recognized = (each for each in (sagemaker_tuning, sagemaker) if each.recognizes(call))
        convert = next((each.convert for each in recognized), estimator.convert_call)
        found.append((sagemaker.LAUNCHER, convert, call))
    for module in (optuna_script, ray_tune):
        if space := module.read(tree):
            found.append((module.LAUNCHER, module.convert, space))
    if not found:
        raise NotImportable(
            f"{path} creates no SageMaker estimator, and has no search space of Optuna or Ray Tune",
            f"name {KNOWN}",
        )
    if len(found) > 1:
        names = " and ".join(launcher for launcher, _, _ in found)
        raise NotImportable(
            f"{path} is for several launchers: {names}", "keep the calls of one of them in the file"
        )
    [(_, convert, foreign)] = found
    return _convert(convert, foreign, path.stem)


def _document(path: Path, text: str) -> Draft:
    is_json = path.suffix == ".json" or text.lstrip().startswith("{")
    foreign = read_json(text, path.name) if is_json else read_yaml(text, path.name)
    if not isinstance(foreign.values, dict):
        raise NotImportable(f"{path} is not a mapping", f"name {KNOWN}")
    marks = [(kind, mark) for kind in KINDS if (mark := kind.recognizes(foreign))]
    if len(marks) > 1:
        names = " and ".join(f"{kind.launcher} ({_where(foreign, mark)})" for kind, mark in marks)
        raise NotImportable(
            f"{path} has the keys of several launchers: {names}", "keep the keys of one launcher in the file"
        )
    if not marks:
        keys = ", ".join(_where(foreign, (key,)) for key in list(foreign.values)[:8])
        raise NotImportable(f"{path} is of an unknown kind; it has the keys {keys}", f"name {KNOWN}")
    return _convert(marks[0][0].convert, batch.unwrap(foreign), path.stem)


def _convert(convert: Callable[[Foreign, str], Draft], foreign: Foreign, stem: str) -> Draft:
    """Convert the file. A refusal names the values that were left out before."""
    try:
        return convert(foreign, stem)
    except NotImportable as refused:
        if not foreign.notes:
            raise
        noted = "; ".join(str(note) for note in foreign.notes[:3])
        raise NotImportable(f"{refused.what} ({noted})", refused.next_step) from refused


def _where(foreign: Foreign, path: Keys) -> str:
    line = foreign.line(path)
    return f"{show_path(path)} in line {line}" if line else show_path(path)


def write(text: str, target: Path, *, force: bool) -> None:
    """Write the job file. Raise OSError, or NotImportable if the file exists, unless `force` is set."""
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise NotImportable(
            f"{target} exists already",
            "write another file with --to FILE, or overwrite this one with --force",
        ) from None


def faults_of(job: Path) -> list[str]:
    """Return the faults that `trainyard check` finds in the job file: values that are missing in the other launcher's
    file."""
    try:
        read(job)
    except JobRefused as refused:
        return [f"{fault.path}: {fault.problem}" for fault in refused.faults]
    return []
