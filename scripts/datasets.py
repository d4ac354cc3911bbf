"""Data sets for the shipped jobs: their prefix in the bucket, and their generator."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scripts.local_yard import ROOT
from trainyard.cli.output.terminal import quote
from trainyard.client.bucket import Bucket
from trainyard.client.errors import NotHere
from trainyard.client.jobs.source import content_of

HOST_PYTHON = ROOT / ".venv-host" / "bin" / "python"
MADE = ROOT / "build" / "data"


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Its `module` writes the same files into a folder each time, and `prefix` is its location in the bucket.
    """

    name: str
    prefix: str
    module: str
    what: str
    arguments: tuple[str, ...] = ()

    def made_in(self, folder: Path) -> Path:
        """Return the folder with the files.

        The first call generates them with the environment that has scikit-learn.
        """
        target = folder / self.name
        if target.is_dir():
            return target
        half = folder / f"{self.name}.half"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        command = [str(HOST_PYTHON), "-m", self.module, *self.arguments, str(half)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            quote(done.stderr)
            raise NotHere(
                f"{self.what} could not be generated", "what was printed is above", " ".join(command)
            )
        half.replace(target)
        return target


DIGITS = DataSet(
    "digits", "data/digits/", "training.programs.datasets.digits", "scans of handwritten digits as TFRecords"
)
MNIST = DataSet(
    "mnist", "data/mnist/", "training.programs.datasets.mnist", "handwritten digits in MNIST's IDX files"
)
MNIST_RECORDS = DataSet(
    "mnist-tfrecords",
    "data/mnist-tfrecords/",
    "training.programs.datasets.mnist",
    "handwritten digits of 28 x 28 as TFRecords",
    ("--tfrecords",),
)
SENTIMENT = DataSet(
    "sentiment", "data/sentiment/", "training.programs.datasets.keras_text", "made-up film reviews"
)
SHIPPED = (DIGITS, MNIST, MNIST_RECORDS, SENTIMENT)


def read_by(job: str) -> list[DataSet]:
    """Return the shipped data sets that the text of a job file names."""
    return [shipped for shipped in SHIPPED if shipped.prefix in job]


def upload(bucket: Bucket, job: Path) -> dict[DataSet, list[str]]:
    """Upload the shipped data that the job reads. Return the keys."""
    return {
        shipped: bucket.put_folder(shipped.made_in(MADE), shipped.prefix)
        for shipped in read_by(content_of(job).decode(errors="replace"))
    }
