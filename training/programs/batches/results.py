"""The results of a batch in the bucket.

`predictions/<file>.jsonl` has the answers to a file and appears whole, so a file with such an object is done. Before
that, the worker writes `predictions-of/<file>.jsonl`: the counts in the first line, then the rows without an answer. A
worker that has done all of its files writes `predictions-of/@workers/<attempt>-<index>.json`. The chief waits for all
of these, and then writes `predictions/errors.jsonl`."""

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from training.programs.batches.answering import Answer
from trainyard.protocol import keys

ENDING = ".jsonl"
ERRORS = "errors.jsonl"
WORKERS = "@workers/"


@dataclass(frozen=True, slots=True)
class Count:
    """The numbers of rows of a file, or of several files."""

    answered: int = 0
    errors: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.answered + other.answered, self.errors + other.errors)


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run."""

    s3: Any
    bucket: str
    run: str

    def list_done(self) -> frozenset[str]:
        """Return the names of the files of answers."""
        return frozenset(self._list(keys.predictions(self.run)))

    def write(self, name: str, file: str, answers: Iterable[Answer]) -> Count:
        """Write the answers to `file` under a name, and first the rows without an answer."""
        with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:
            good, bad = Path(folder, "good"), Path(folder, "bad")
            with good.open("w") as to, bad.open("w") as beside:
                count = _split(file, answers, to, beside)
            part = Path(folder, "part")
            with part.open("w") as to, bad.open() as source:
                _write_line(to, {"file": file, "answered": count.answered, "errors": count.errors})
                to.writelines(source)
            self._send(part, f"{keys.predictions_of(self.run)}{name}")
            self._send(good, f"{keys.predictions(self.run)}{name}")
        return count

    def report_worker(self, attempt: str, index: str) -> None:
        """Record that a worker has done all of its files."""
        key = f"{keys.predictions_of(self.run)}{WORKERS}{attempt}-{index}.json"
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=b"{}")

    def count_workers(self, attempt: str) -> int:
        """Return how many workers of the attempt have done all of their files."""
        return len(self._list(f"{keys.predictions_of(self.run)}{WORKERS}{attempt}-"))

    def merge_errors(self) -> Count:
        """Write errors.jsonl with the rows of all files that have no answer. Return the counts of all files."""
        total = Count()
        with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:
            merged = Path(folder, ERRORS)
            with merged.open("w") as to:
                for name in sorted(self.list_done() - {ERRORS}):
                    lines = self._read_lines(f"{keys.predictions_of(self.run)}{name}")
                    head = json.loads(next(lines))
                    total += Count(head["answered"], head["errors"])
                    to.writelines(f"{line}\n" for line in lines)
            self._send(merged, f"{keys.predictions(self.run)}{ERRORS}")
        return total

    def _read_lines(self, key: str) -> Iterator[str]:
        body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        return (line.decode() for line in body.iter_lines())

    def _send(self, path: Path, key: str) -> None:
        self.s3.upload_file(str(path), self.bucket, key)

    def _list(self, prefix: str) -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [each["Key"].removeprefix(prefix) for page in pages for each in page.get("Contents", [])]


def name_of(file: str) -> str:
    """Return the name of the answers to a file."""
    return file if file.endswith(ENDING) and file != ERRORS else f"{file}{ENDING}"


def _split(file: str, answers: Iterable[Answer], good: IO[str], bad: IO[str]) -> Count:
    """Write answers and reasons, a line each. Return their numbers."""
    answered = errors = 0
    for each in answers:
        if each.reason:
            errors += 1
            _write_line(bad, {"file": file, "line": each.line, "reason": each.reason})
        else:
            answered += 1
            _write_line(good, {"line": each.line, "prediction": each.prediction})
    return Count(answered, errors)


def _write_line(to: IO[str], document: object) -> None:
    to.write(f"{json.dumps(document)}\n")
