"""Before a launch, a warning names the line that a program needs to continue after an interruption."""

from typing import Any

import pytest

from tests.support.archives_of_programs import pack
from trainyard.core.jobfile import check, references
from trainyard.core.model.job import Job

SOURCE = "s3://yard/programs/x.tar.gz"
KERAS = "import keras\nmodel = keras.Sequential()\nmodel.fit(x, y, epochs=9, callbacks=[{}])\n"
LIGHTNING = """
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
trainer = L.Trainer(max_epochs=9, callbacks=[{}])
trainer.fit(Model(), loader{})
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
trainer = Trainer(model, TrainingArguments(output_dir="results"), train_dataset=data)
trainer.train({})
"""
TORCH = "import torch\nfor step in range(9):\n    torch.save({{}}, 'last.pt')\n{}"
IMAGENET = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="", type=str)
args = parser.parse_args()
if args.resume:
    state = torch.load(args.resume)
def save_checkpoint(state, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
"""
DCGAN = """
import tensorflow as tf
checkpoint = tf.train.Checkpoint(generator=generator)
{before}
def train(dataset, epochs):
    for epoch in range(epochs):
        checkpoint.save(file_prefix="ckpt")
train(dataset, 50)
{behind}
"""
RESTORE = "checkpoint.restore(tf.train.latest_checkpoint(checkpoint_dir))"


def warned(text: str, *, args: object = None, **document: Any) -> tuple[str, ...]:
    program = {"module": "train", "source": SOURCE} | ({"args": args} if args else {})
    job = check.check({"name": "x", "program": program} | document, source="jobs/x.yaml", bucket="yard")
    assert isinstance(job, Job), job.reason
    return references.program_findings(job, SOURCE, pack({"train.py": text})).warnings


CANNOT: dict[str, tuple[str, str]] = {
    "Keras saves and loads nothing": (
        KERAS.format('keras.callbacks.ModelCheckpoint("checkpoints/{epoch}.keras")'),
        'callbacks=[keras.callbacks.BackupAndRestore("backup"), ...] in fit',
    ),
    "Lightning without ckpt_path": (
        LIGHTNING.format("", ""),
        'trainer.fit(model, ..., ckpt_path="last") with ModelCheckpoint(dirpath="checkpoints", save_last=True)',
    ),
    "Lightning asks for the last one of a new version": (
        LIGHTNING.format("ModelCheckpoint(save_last=True)", ', ckpt_path="last"'),
        'ModelCheckpoint(dirpath="checkpoints", save_last=True) among the callbacks',
    ),
    "Lightning asks for the last one that it never writes": (
        LIGHTNING.format('ModelCheckpoint(dirpath="x")', ', ckpt_path="last"'),
        'ModelCheckpoint(dirpath="checkpoints", save_last=True) among the callbacks',
    ),
    "a Trainer": (
        TRAINER.format(""),
        'trainer.train(resume_from_checkpoint=any(pathlib.Path("results").glob("checkpoint-*")))',
    ),
    "PyTorch": (
        TORCH.format(""),
        'if os.path.exists("last.pt"): model.load_state_dict(torch.load("last.pt")) before the loop',
    ),
    "PyTorch with a loader of data": (
        TORCH.format("from torch.utils.data import DataLoader\nDataLoader(datasets.load_data())"),
        'if os.path.exists("last.pt")',
    ),
    "PyTorch's ImageNet without its flag": (IMAGENET, "resume: checkpoint.pth.tar below program.args"),
    "TensorFlow without restore": (
        DCGAN.format(before="", behind=""),
        "checkpoint.restore(manager.latest_checkpoint)",
    ),
    "TensorFlow's tutorial of a DCGAN": (
        DCGAN.format(before="", behind=RESTORE),
        "train.py line 9 restores its checkpoint after the training",
    ),
}
CAN: dict[str, str] = {
    "Keras with its backup": KERAS.format(
        'keras.callbacks.ModelCheckpoint("a.keras"), keras.callbacks.BackupAndRestore("backup")'
    ),
    "Keras that loads": "import keras\nkeras.models.load_model('a.keras')\n"
    + KERAS.format('keras.callbacks.ModelCheckpoint("a.keras")'),
    "Keras that saves nothing": KERAS.format(""),
    "Lightning with its last one": LIGHTNING.format(
        'ModelCheckpoint(dirpath="checkpoints", save_last="link")', ', ckpt_path="last"'
    ),
    "Lightning with a path": LIGHTNING.format("", ", ckpt_path=found"),
    "a Trainer that resumes": TRAINER.format("resume_from_checkpoint=last_checkpoint"),
    "PyTorch that loads": TORCH.format("torch.load('last.pt')"),
    "PyTorch that loads by a function of its own": TORCH.format("load_checkpoint(model)"),
    "TensorFlow's DCGAN that restores first": DCGAN.format(before=RESTORE, behind=""),
    "TensorFlow's DCGAN that restores twice": DCGAN.format(before=RESTORE, behind=RESTORE),
    "the runtime": "from trainyard.runtime import start\n" + TORCH.format(""),
}


@pytest.mark.parametrize("name", CANNOT)
def test_a_program_that_would_start_again_at_0_is_warned_of_with_the_line_that_helps(name: str) -> None:
    text, line = CANNOT[name]
    (warning,) = warned(text)
    assert line in warning
    assert "starts again at step 0" in warning


@pytest.mark.parametrize("name", CAN)
def test_a_program_that_may_continue_is_not_warned_of(name: str) -> None:
    assert warned(CAN[name]) == ()


@pytest.mark.parametrize("args", [{"resume": "checkpoint.pth.tar"}, ["--resume", "x"], ["--resume=x"]])
def test_a_flag_that_the_job_sets_is_asked_for(args: object) -> None:
    assert warned(IMAGENET, args=args) == ()


@pytest.mark.parametrize("document", [{"limits": {"restarts": 0}}, {"hardware": {"market": "on_demand"}}])
def test_a_run_that_is_never_interrupted_and_started_again_needs_no_advice(document: dict[str, Any]) -> None:
    assert warned(TORCH.format(""), **document) == ()
    assert warned(TORCH.format(""))
