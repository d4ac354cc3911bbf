"""Small files are uploaded in parallel, each once. Files that the bucket has are not sent again."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import boto3
import pytest

from trainyard.client import Session
from trainyard.client.bucket import Bucket
from trainyard.client.errors import FileChanged
from trainyard.client.jobs import source, submission
from trainyard.client.jobs.source import LocalJob

ANSWER_SECONDS = 0.1
"""The delay of a region on the same continent."""
FILES = 200


class _Slow(BaseHTTPRequestHandler):
    """A server that stores objects, with a delay before each answer."""

    objects: dict[str, bytes]
    lock = threading.Lock()
    asked_first = 0
    """Requests that waited for permission to send their bytes."""
    received: ClassVar[list[str]] = []
    """Names of the files whose bytes came from the client."""
    now = most = 0
    """Requests that wait for an answer: now, and the maximum until now."""
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        _Slow.asked_first += "Expect" in self.headers
        body, answer = self.rfile.read(int(self.headers["Content-Length"])), b""
        if source := self.headers["x-amz-copy-source"]:
            if f"/{unquote(source)}" not in self.objects:
                self._answer(b"<Error><Code>NoSuchKey</Code></Error>", status=404)
                return
            body, answer = self.objects[f"/{unquote(source)}"], b"<CopyObjectResult/>"
        else:
            _Slow.received.append(self.path.rpartition("/")[2])
        with self.lock:
            _Slow.now += 1
            _Slow.most = max(_Slow.most, _Slow.now)
        time.sleep(ANSWER_SECONDS)
        with self.lock:
            _Slow.now -= 1
        self.objects[self.path.partition("?")[0]] = body
        self._answer(answer)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if "list-type" not in asked.query:
            body = self.objects.get(asked.path)
            self._answer(body or b"<Error><Code>NoSuchKey</Code></Error>", status=200 if body else 404)
            return
        (prefix,) = parse_qs(asked.query)["prefix"]
        listed = "".join(
            f"<Contents><Key>{escape(path.removeprefix('/yard/'))}</Key><Size>{len(body)}</Size></Contents>"
            for path, body in self.objects.items()
            if path.startswith(f"/yard/{prefix}")
        )
        self._answer(
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>".encode()
        )

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 64


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    _Slow.objects, _Slow.most, _Slow.asked_first, _Slow.received = {}, 0, 0, []
    server = _Server(("127.0.0.1", 0), _Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    boto = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    yield Bucket(Session(boto, f"http://127.0.0.1:{server.server_port}"), "yard")
    server.shutdown()
    server.server_close()


@pytest.fixture
def job(tmp_path: Path) -> LocalJob:
    for number in range(FILES):
        (tmp_path / "data" / f"d{number % 7}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / f"d{number % 7}" / f"{number}.txt").write_text(str(number))
    (tmp_path / "job.yaml").write_text(
        "name: mine\nprogram: {module: training.programs.digits}\ndata: {x: ./data}\n"
    )
    return source.read(tmp_path / "job.yaml")


def test_small_files_are_sent_side_by_side(bucket: Bucket, job: LocalJob) -> None:
    told: list[tuple[str, int, int]] = []
    sent = submission.send(bucket, job, lambda *each: told.append(each))
    assert _Slow.most >= 10
    assert _Slow.asked_first == 0, "S3's leave costs as much time as its answer"
    assert len(sent) == FILES
    data = {path: body for path, body in _Slow.objects.items() if path.startswith("/yard/data/")}
    assert {path.rpartition("/")[2]: body for path, body in data.items()} == {
        f"{number}.txt": str(number).encode() for number in range(FILES)
    }
    key, done, total = told[-1]
    assert key == f"{job.packages[0].key}: {FILES} of {FILES} files"
    assert done == total == job.packages[0].size


def test_what_is_there_is_not_sent_again(bucket: Bucket, job: LocalJob) -> None:
    submission.send(bucket, job)
    path = next(iter(_Slow.objects))
    del _Slow.objects[path]
    assert submission.send(bucket, job) == (path.removeprefix("/yard/"),)
    assert submission.send(bucket, job) == ()


def changed(job: LocalJob, name: str, text: str) -> LocalJob:
    """Write this text into the job's file of this name, and return the job read again."""
    (file,) = [each.source for each in job.packages[0].files if each.path.endswith(f"/{name}")]
    file.write_text(text)
    return source.read(job.file)


def objects_of(job: LocalJob) -> dict[str, bytes]:
    key = f"/yard/{job.packages[0].key}"
    return {path.removeprefix(key): body for path, body in _Slow.objects.items() if path.startswith(key)}


def test_of_a_folder_in_which_a_file_has_changed_only_that_file_is_sent(
    bucket: Bucket, job: LocalJob
) -> None:
    submission.send(bucket, job)
    _Slow.received.clear()
    later = changed(job, "7.txt", "another one")
    assert later.packages[0].key != job.packages[0].key
    assert len(submission.send(bucket, later)) == FILES
    assert sorted(_Slow.received) == ["7.txt", "data.json"], "and the list of what the folder holds"
    assert objects_of(later) == objects_of(job) | {"d0/7.txt": b"another one"}
    _Slow.received.clear()
    assert submission.send(bucket, source.read(job.file)) == ()
    assert _Slow.received == []


def test_what_is_not_there_any_more_to_be_copied_is_sent(bucket: Bucket, job: LocalJob) -> None:
    submission.send(bucket, job)
    later = changed(job, "7.txt", "another one")
    del _Slow.objects[f"/yard/{job.packages[0].key}d1/8.txt"]
    _Slow.received.clear()
    submission.send(bucket, later)
    assert sorted(_Slow.received) == ["7.txt", "8.txt", "data.json"]
    assert objects_of(later)["d1/8.txt"] == b"8"


@pytest.mark.parametrize(
    "listed",
    [b"[]", b"nonsense", b'{"folder": "runs/x/", "files": {}}', b'{"folder": "data/data-0/", "files": 3}'],
)
def test_an_invalid_list_is_ignored(bucket: Bucket, job: LocalJob, listed: bytes) -> None:
    _Slow.objects["/yard/programs/by/YOU/folders/data.json"] = listed
    assert len(submission.send(bucket, job)) == FILES


def test_a_file_that_changes_on_the_way_ends_it(bucket: Bucket, job: LocalJob) -> None:
    job.packages[0].files[3].source.write_text("another one")
    with pytest.raises(FileChanged):
        submission.send(bucket, job)
