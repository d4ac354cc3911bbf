"""TensorFlow Serving's REST interface and Open Inference v2, on the loopback interface."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from training.programs.serving.idle import Idle
from training.programs.serving.model import Model
from trainyard.core.prediction import http, responses
from trainyard.core.prediction.http import HttpRequest, RefusedError, Status
from trainyard.core.prediction.routes import WITH_BODY, Act, route_of
from trainyard.protocol.ledger.models import DEFAULT
from trainyard.values.quantities import format_bytes

LOOPBACK = "127.0.0.1"
MOST_BYTES = 256 << 20
"""The most bytes of a request. Its JSON needs several times as much memory."""


@contextmanager
def serving(model: Model, idle: Idle, port: int) -> Iterator[int]:
    """Serve in threads. Yield the port, which is free if 0 is given."""
    server = Server((LOOPBACK, port), Handler)
    server.model, server.idle = model, idle
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    model: Model
    idle: Idle


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # clients keep their connections
    server: Server

    def do_GET(self) -> None:
        self._send(respond(self.server.model, self.server.idle, "GET", self.path, ""))

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal():
            self.close_connection = True
            said = "the request has no Content-Length; wanted one"
            self._send(http.refusal(RefusedError(Status.BAD_REQUEST, said)))
        elif int(size) > MOST_BYTES:
            self.close_connection = True
            said = f"the request has {format_bytes(int(size))}, more than {format_bytes(MOST_BYTES)}: send fewer rows"
            self._send(http.refusal(RefusedError(Status.TOO_LARGE, said)))
        else:
            content = self.rfile.read(int(size))
            self._send(respond(self.server.model, self.server.idle, "POST", self.path, content))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the parameter
        """Log no requests: the program's lines are the log of the run."""

    def _send(self, answer: dict[str, Any]) -> None:
        body = answer["body"].encode()
        self.send_response(answer["statusCode"])
        for name, value in answer["headers"].items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def respond(model: Model, idle: Idle, method: str, path: str, content: bytes | str) -> dict[str, Any]:
    """Return the answer to a request, and count a prediction."""
    try:
        text = content if isinstance(content, str) else content.decode()
        request = HttpRequest(method=method, path=unquote(urlsplit(path).path), body=text)
        route = route_of(request)
        if route.act is Act.HEALTH:
            return http.answer({"ready": True})
        model.check_version(route.model, route.version or (None if route.alias == DEFAULT else route.alias))
        found = responses.respond(model.version, route, text, model.compute)
    except UnicodeDecodeError as error:
        said = f"the request is not text in UTF-8: {error}"
        return http.refusal(RefusedError(Status.BAD_REQUEST, said))
    except RefusedError as refused:
        return http.refusal(refused)
    except MemoryError:
        said = "the request needs more memory than the host has: send fewer rows at once"
        return http.refusal(RefusedError(Status.NO_MEMORY, said))
    if route.act in WITH_BODY:
        idle.add()
    return http.answer(found, version=model.number, most=None)
