"""Items of another launcher's file that a job file cannot have: each is reported with its line, and secrets are never
copied."""

import json
from pathlib import Path

import pytest

from tests.unit.client.importing.samples import FILES, draft_of
from trainyard.client.errors import NotImportable

ABSENT = {"files", "resources", "gres"}
"""Items that the foreign file lacks, so that they have no line."""
HUB, AWS = "hf_" + "a1B2" * 8, "AKIA" + "0A1B" * 4


@pytest.mark.parametrize("name", FILES)
def test_each_loss_has_its_line(tmp_path: Path, name: str) -> None:
    notes = draft_of(tmp_path, name, FILES[name]).notes
    assert [str(note) for note in notes if not note.line and note.item not in ABSENT] == []


SECRETS = [
    # file, text, line, variable
    ("a.yaml", f"run: |\n  cd code\n  export HF_TOKEN={HUB}\n  python train.py\n", 3, "HF_TOKEN"),
    ("a.yaml", f"setup: huggingface-cli login --token {HUB}\nrun: python train.py\n", 1, "HF_TOKEN"),
    ("a.yaml", f"run: |\n  wandb login {'0a1b' * 10}\n", 2, "WANDB_API_KEY"),
    ("a.yaml", "run: |\n  true\n  python train.py --api-key='s e c r e t'\n", 3, "API_KEY"),
    ("a.dstack.yml", f"type: task\ncommands:\n  - nvidia-smi\n  - HF_TOKEN={HUB}\n", 4, "HF_TOKEN"),
    ("a.dstack.yml", f"type: task\nenv:\n  - SEED=1\n  - HF_TOKEN={HUB}\ncommands: [./train]\n", 4, "HF_TOKEN"),
    ("a.sh", f"#!/bin/bash\n#SBATCH --nodes=1\n\nexport HF_TOKEN={HUB}\nsrun python train.py\n", 4, "HF_TOKEN"),
    ("a.sh", f"#SBATCH -N 1\nexport AWS_ACCESS_KEY_ID={AWS}\npython train.py\n", 2, "AWS_ACCESS_KEY_ID"),
    (
        "a.json",
        json.dumps({"jobDefinitionName": "x", "containerProperties": {"command": ["python", "t.py", HUB]}}, indent=1),
        4,
        "HF_TOKEN",
    ),
    ("a.py", f'TensorFlow(entry_point="t.py", hyperparameters={{\n "hub_token": "{HUB}"}})\n', 2, "HUB_TOKEN"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "line", "variable"), SECRETS)
def test_a_secret_in_a_command_becomes_a_secret_of_the_yard(
    tmp_path: Path, name: str, text: str, line: int, variable: str
) -> None:
    draft = draft_of(tmp_path, name, text)
    written = draft.text("Imported.")
    assert not any(secret in written for secret in (HUB, AWS, "0a1b0a1b", "s e c r e t"))
    [note] = [note for note in draft.notes if "not copied" in note.reason or "credentials" in note.reason]
    assert note.line == line
    kept = draft.job["program"].get("secrets", {})
    assert (variable in kept) is (not variable.startswith("AWS_"))
    if kept and "shell" in draft.job["program"] and "=" not in text.partition(variable)[2][:1]:
        assert f"${variable}" in draft.job["program"]["shell"]


@pytest.mark.parametrize(
    "command", ["train --pad-token x", "train --sort_key name", "export LR=0.1", "export HF_TOKEN=$HF_TOKEN"]
)
def test_an_ordinary_value_is_no_secret(tmp_path: Path, command: str) -> None:
    draft = draft_of(tmp_path, "a.yaml", f"run: {command}\n")
    assert "secrets" not in draft.job["program"]
    assert command in draft.job["program"]["shell"]


def test_a_single_file_is_sent_with_the_source(tmp_path: Path) -> None:
    text = "file_mounts:\n  /cfg/a.json: ./configs/a.json\nrun: cd x; train --config /cfg/a.json\n"
    draft = draft_of(tmp_path, "a.yaml", text)
    assert draft.job["program"]["source"] == "./"
    assert "export SOURCE_FOLDER=" in draft.job["program"]["shell"]
    assert "train --config $SOURCE_FOLDER/a.json" in draft.job["program"]["shell"]
    assert "data" not in draft.job
    assert [(note.line, note.item) for note in draft.notes if note.line] == [(2, "file_mounts./cfg/a.json")]


def test_files_of_a_dstack_task_are_sent_in_their_folder(tmp_path: Path) -> None:
    text = "type: task\nfiles:\n  - code/train.py\n  - more/b.py\ncommands: [python train.py]\n"
    draft = draft_of(tmp_path, "a.dstack.yml", text)
    assert draft.job["program"]["source"] == "./code"
    assert (4, "files[1]") in [(note.line, note.item) for note in draft.notes]


@pytest.mark.parametrize("uri", ["s3://YOUR_BUCKET/imdb/", "<your bucket>", "$DATA", "s3://{bucket}/x/"])
def test_a_placeholder_is_no_data(tmp_path: Path, uri: str) -> None:
    draft = draft_of(tmp_path, "a.yaml", f"file_mounts:\n  /d: {uri!r}\nrun: train\n")
    assert "data" not in draft.job
    assert [note.line for note in draft.notes if note.item == "file_mounts./d"] == [2]


def test_the_name_of_a_pipeline_with_one_task_is_the_jobs(tmp_path: Path) -> None:
    draft = draft_of(tmp_path, "a.yaml", "name: tune\n---\nrun: |\n  module\n  export HF_TOKEN=abc\n")
    assert draft.job["name"] == "tune"
    assert [note.line for note in draft.notes if note.item == "HF_TOKEN"] == [5]


def test_options_of_srun_may_be_in_a_variable(tmp_path: Path) -> None:
    lines = (
        'ARGS=" --wait=60 "',
        'CMD="python train.py"',
        'srun $ARGS --jobid 7 bash -c "$CMD"',
        "srun $CMD",
    )
    text = "\n".join(("#SBATCH -N 1", *lines))
    shell = draft_of(tmp_path, "a.sh", text).job["program"]["shell"].splitlines()
    assert shell[-2:] == ['bash -c "$CMD"', "$CMD"]


def test_scripts_that_a_batch_script_includes_and_options_of_another_scheduler_are_reported(
    tmp_path: Path,
) -> None:
    text = "#!/bin/bash\n#SBATCH -N 1\n#PBS -l walltime=1:00\n. env/paths.sh\npython train.py\n"
    found = {note.line: str(note) for note in draft_of(tmp_path, "a.sh", text).notes}
    assert "another scheduler" in found[3]
    assert "env/paths.sh" in found[4]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.yaml", "# A\nrun: a\nTrainingJobName: x\n", ("run in line 2", "TrainingJobName in line 3")),
        ("a.yaml", "type: task\ncommands: [a]\nrun: a\n", ("type in line 1", "run in line 3")),
        ("a.yaml", "apiVersion: v1\nkind: Job\n", ("apiVersion in line 1", "kind in line 2")),
        ("a.yaml", "run: a\nenvs: !include envs.yaml\n", ("!include", "line 2")),
        ("a.yaml", "run: a\n---\nrun: b\n", ("2 documents (lines 1, 3)",)),
        ("a.json", '{\n"a": "{{ name }}"}', ("a template: line 2",)),
    ],
)
def test_a_refusal_names_the_lines(tmp_path: Path, name: str, text: str, lines: tuple[str, ...]) -> None:
    with pytest.raises(NotImportable) as refused:
        draft_of(tmp_path, name, text)
    assert all(line in refused.value.what for line in lines), refused.value.what
