"""The metadata service of a host, also when it is silent or lacks tags."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from training.host.errors import HostTrouble
from training.host.metadata import TIMES, Metadata

TOLD = {
    "meta-data/instance-id": "i-0abc",
    "meta-data/placement/region": "us-east-1",
    "meta-data/local-ipv4": "10.0.0.7",
    "meta-data/ami-id": "ami-1",
}


class Service(BaseHTTPRequestHandler):
    """The metadata service of an instance. Tags are hidden until a test adds them."""

    texts: ClassVar[dict[str, str]] = {}
    silent: ClassVar[int] = 0
    """The number of requests that get no answer."""

    def do_PUT(self) -> None:
        self._answer("token")

    def do_GET(self) -> None:
        self._answer(self.texts.get(self.path.removeprefix("/latest/")))

    def _answer(self, text: str | None) -> None:
        if Service.silent:
            Service.silent -= 1
            return
        self.send_response(200 if text is not None else 404)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    Service.texts, Service.silent = dict(TOLD), 0
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_host_whose_tags_are_hidden_waits_says_so_once_and_soon_asks_but_seldom(
    service: str, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 40:
            Service.texts |= {
                "meta-data/tags/instance": "trainyard:run",
                "meta-data/tags/instance/trainyard:run": "digits-1",
            }

    identity = Metadata(service).await_identity(sleep)
    assert identity.tags == {"trainyard:run": "digits-1"}
    assert slept == [2.0] * 30 + [60.0] * 10
    (said,) = caplog.messages
    assert "InstanceMetadataTags=enabled" in said


def test_a_service_that_does_not_answer_is_asked_again_and_then_told_of(service: str) -> None:
    Service.texts["meta-data/tags/instance/trainyard:run"] = "digits-1"
    Service.silent = TIMES - 1
    assert Metadata(service).tag("trainyard:run") == "digits-1"
    Service.silent = TIMES
    with pytest.raises(HostTrouble, match="does not answer"):
        Metadata(service).tag("trainyard:run")
