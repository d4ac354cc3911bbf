"""Answer the rows of many files with a version of a model.

Reads the files from the data entry `rows` and the SavedModel from `model`. The version must answer its golden rows as
at its export. Each worker answers its own files. The answers to a file appear whole in `predictions/` of the run, so
that a later attempt answers only the files that have none. The chief ends last and writes `predictions/errors.jsonl`,
which names file, line and reason of each row without an answer."""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
from botocore.config import Config

from training.programs.arguments import SHOWN, at_least, parser_of
from training.programs.batches import rows
from training.programs.batches.answering import Answer, Answering
from training.programs.batches.results import Count, Results, name_of
from training.programs.serving.model import Model, NotServedError
from trainyard.core.model.batch import MODEL, ROWS, Format
from trainyard.core.prediction.body import signature_name
from trainyard.core.prediction.http import RefusedError
from trainyard.runtime.environment import Environment
from trainyard.runtime.metrics import write_metrics
from trainyard.values.quantities import format_count
from trainyard.values.validation import any_of

CALLS = Config(retries={"mode": "standard", "total_max_attempts": 10})
LOOK_SECONDS = 2.0
NEWS_SECONDS = 30.0
"""The longest time without a line in the log, because a silent program counts as hanging."""


def main() -> None:
    arguments = parse_arguments()
    environment = Environment.from_os()
    results = results_of(environment)
    answering = load(environment.data_folder(MODEL), arguments)
    total = answer_files(environment.data_folder(ROWS), arguments.format, answering, results)
    attempt, index, workers = (os.environ[f"TRAINYARD_{name}"] for name in ("ATTEMPT", "INDEX", "WORKERS"))
    print(f"this worker has answered {format_count(total.answered, 'row')}", flush=True)
    if os.environ["TRAINYARD_ROLE"] != "chief":
        results.report_worker(attempt, index)
        return
    wait_for_workers(results, attempt, int(workers) - 1)
    total = results.merge_errors()
    write_metrics(environment.metrics, {"rows": total.answered, "errors": total.errors})
    rest = (
        f"; {format_count(total.errors, 'row')} without an answer: predictions/errors.jsonl"
        if total.errors
        else ""
    )
    print(f"{format_count(total.answered, 'row')} answered{rest}", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--format", type=Format, default=Format.JSONL, help=f"{any_of(tuple(Format))} {SHOWN}"
    )
    parser.add_argument("--signature", help="the signature that answers")
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument("--version", type=at_least(1), required=True, help="number of the version")
    parser.add_argument("--record", help="SHA-256 of the version's trainyard.json")
    parser.add_argument("--batch-size", type=at_least(1), default=64, help=f"most rows of one call {SHOWN}")
    return parser.parse_args()


def results_of(environment: Environment) -> Results:
    """Return the results of this run. The version of the model is in the yard's bucket."""
    if environment.job is None:
        raise SystemExit("this program needs a run of a yard: submit a job file with the section predict")
    source = str(json.loads(environment.job.read_text())["data"][MODEL]["source"])
    bucket = source.removeprefix("s3://").partition("/")[0]
    return Results(boto3.client("s3", config=CALLS), bucket, environment.run)


def load(folder: Path, arguments: argparse.Namespace) -> Answering:
    """Return the signature that answers, of a version that answers its golden rows as at its export."""
    given = {"signature_name": arguments.signature} if arguments.signature else {}
    try:
        model = Model.load(folder, arguments.model, arguments.version, label="", record=arguments.record)
        name = signature_name(given, model.record.signatures)
        types = model.check_signature(name)
        print(model.check_golden(), flush=True)
    except (NotServedError, RefusedError) as refused:
        raise SystemExit(str(refused)) from None
    print(f"{model.named}: rows are answered by {name}", flush=True)
    return Answering(model.loaded.signatures[name], types, arguments.batch_size)


def answer_files(folder: Path, form: Format, answering: Answering, results: Results) -> Count:
    """Answer the files of this worker that have no answers yet."""
    files = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    names = {file: name_of(file) for file in files}
    taken = {name: file for file, name in names.items()}
    if twice := next((file for file, name in names.items() if taken[name] != file), None):
        raise SystemExit(
            f"{twice} and {taken[names[twice]]} would both be answered in {names[twice]}; rename one"
        )
    done, total = results.list_done(), Count()
    for file, path in files.items():
        if names[file] in done:
            print(f"{file}: answered before", flush=True)
            continue
        count = results.write(
            names[file], file, tell(file, answering.answer(rows.read(path, form, answering.types)))
        )
        print(f"{file}: {format_count(count.answered, 'answer')}, {count.errors} without", flush=True)
        total += count
    return total


def tell(file: str, answers: Iterator[Answer]) -> Iterator[Answer]:
    """Yield the answers, and print a line from time to time."""
    last = time.monotonic()
    for number, answer in enumerate(answers, 1):
        if time.monotonic() - last > NEWS_SECONDS:
            last = time.monotonic()
            print(f"{file}: {format_count(number, 'row')}", flush=True)
        yield answer


def wait_for_workers(results: Results, attempt: str, others: int) -> None:
    """Wait until all other workers of the attempt have done their files."""
    last = time.monotonic()
    while (done := results.count_workers(attempt)) < others:
        if time.monotonic() - last > NEWS_SECONDS:
            last = time.monotonic()
            print(f"waiting for {format_count(others - done, 'worker')}", flush=True)
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
