"""Many small files are sent side by side, each once; what the bucket has already is not sent again."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

import boto3
import pytest

from trainyard.client import Session
from trainyard.client.bucket import Bucket
from trainyard.client.errors import FileChanged
from trainyard.client.jobs import source, submission
from trainyard.client.jobs.source import LocalJob

ANSWER_SECONDS = 0.1
"""As far away as a region on the same continent."""
FILES = 200


class _Slow(BaseHTTPRequestHandler):
    """Stores objects, each request after a while."""

    objects: dict[str, bytes]
    lock = threading.Lock()
    now = most = 0
    """Requests that wait for their answer now, and at most so far."""
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            _Slow.now += 1
            _Slow.most = max(_Slow.most, _Slow.now)
        time.sleep(ANSWER_SECONDS)
        with self.lock:
            _Slow.now -= 1
        self.objects[self.path.partition("?")[0]] = body
        self._answer(b"")

    def do_GET(self) -> None:
        listed = "".join(
            f"<Contents><Key>{escape(path.removeprefix('/yard/'))}</Key><Size>{len(body)}</Size></Contents>"
            for path, body in self.objects.items()
        )
        self._answer(
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>".encode()
        )

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 64


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    _Slow.objects, _Slow.most = {}, 0
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
    assert len(sent) == len(_Slow.objects) == FILES
    assert {path.rpartition("/")[2]: body for path, body in _Slow.objects.items()} == {
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


def test_a_file_that_changes_on_the_way_ends_it(bucket: Bucket, job: LocalJob) -> None:
    job.packages[0].files[3].source.write_text("another one")
    with pytest.raises(FileChanged):
        submission.send(bucket, job)
