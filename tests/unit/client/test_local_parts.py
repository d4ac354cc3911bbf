"""`doctor` names the parts that the machine of a local cloud lacks."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest

from trainyard.client.admin import local_parts
from trainyard.client.admin.requirements import Verdict
from trainyard.client.session import Session

WHY = "/dev/fuse: No such file or directory"


class Status(BaseHTTPRequestHandler):
    """Answers as a local cloud, or as another emulator without a status."""

    status: object = None

    def do_GET(self) -> None:
        self.send_response(200 if self.status is not None else 404)
        self.end_headers()
        self.wfile.write(json.dumps(self.status).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        return


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Status)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def session(endpoint: str | None) -> Session:
    boto = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
    return Session(boto, endpoint)


@pytest.mark.parametrize(
    ("status", "found"),
    [({"missing": {"streams": WHY}}, ["streams"]), ({"missing": {}}, []), ({}, []), (None, [])],
)
def test_a_missing_part_of_a_local_cloud_is_a_row(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, status: object, found: list[str]
) -> None:
    monkeypatch.setattr(Status, "status", status)
    rows = local_parts.look(session(endpoint))
    assert [row.subject for row in rows] == found
    assert all(row.verdict is Verdict.SHORT and WHY in row.found for row in rows)


def test_aws_has_all_parts() -> None:
    assert local_parts.look(session(None)) == []
