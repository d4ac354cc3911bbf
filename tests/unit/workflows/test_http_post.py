"""Requests of webhooks to servers of this process: TLS, redirects, slow and internal servers."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lambdas.core.webhooks import Message
from lambdas.steps import http_post, webhooks
from lambdas.steps.http_post import NoAnswerError, RefusedError, post
from lambdas.steps.webhooks import Delivery
from trainyard.core.model.addresses import networks_of
from trainyard.protocol.webhooks import NotificationKind, Webhook, WebhookKind

LOOPBACK = networks_of(["127.0.0.0/8", "::1/128"])
NOW = datetime(2026, 11, 20, tzinfo=UTC)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        status = int(self.path.rpartition("/")[2])
        self.send_response(status)
        self.send_header("location", "/204")
        body = b"too\x1b[31m many" if status >= 400 else b""
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests readable."""


def serve(tls: ssl.SSLContext | None = None) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def port() -> Iterator[int]:
    server = serve()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def certificate(folder: Path, name: str) -> Path:
    """Return a file with a key and its own certificate for this name."""
    key, subject = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(private + made.public_bytes(pem))
    return file


@pytest.mark.parametrize(("name", "is_trusted"), [("localhost", True), ("other.example", False)])
def test_a_certificate_is_checked_against_the_name_in_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_trusted: bool
) -> None:
    file = certificate(tmp_path, name)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    server = serve(tls)
    url = f"https://localhost:{server.server_address[1]}/204"
    try:
        if is_trusted:
            assert post(url, b"{}", {}, LOOPBACK) == (204, "")
        else:
            with pytest.raises(NoAnswerError, match="CERTIFICATE_VERIFY_FAILED"):
                post(url, b"{}", {}, LOOPBACK)
    finally:
        server.shutdown()
        server.server_close()


def test_a_redirect_is_an_answer(port: int) -> None:
    assert post(f"http://127.0.0.1:{port}/302", b"{}", {}, LOOPBACK) == (302, "")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "2130706433"])
def test_a_server_on_an_internal_address_gets_no_request(port: int, host: str) -> None:
    """A name and other spellings of an address are resolved first."""
    with pytest.raises(RefusedError, match=r"internal address 127\.0\.0\.1"):
        post(f"https://{host}:{port}/204", b"{}", {}, ())


def test_a_closed_port_and_an_unknown_name_may_answer_later(port: int) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(NoAnswerError, match="no answer"):
            post(f"http://127.0.0.1:{closed.getsockname()[1]}/", b"{}", {}, LOOPBACK)
    with pytest.raises(NoAnswerError, match="has no address"):
        post("https://no-such-server.invalid/", b"{}", {}, LOOPBACK)


def deliveries(url: str) -> list[Delivery]:
    message = Message(id="m", at=NOW, kind=NotificationKind.END, subject="s", text="t")
    hook = Webhook(kind=WebhookKind.URL, url=url, key="whsec_AAAA")
    return list(webhooks.send(message, {"ml": hook}, LOOPBACK, NOW))


@pytest.mark.parametrize(
    ("status", "problem", "is_final"),
    [
        (200, "", True),
        (302, "it answered 302: redirects are not followed, so register the final address", True),
        (404, "it answered 404 (too many)", True),
        (429, "it answered 429 (too many)", False),
        (503, "it answered 503 (too many)", False),
    ],
)
def test_the_answer_decides_on_another_try(port: int, status: int, problem: str, is_final: bool) -> None:
    assert deliveries(f"http://127.0.0.1:{port}/{status}") == [Delivery("ml", problem, is_final)]


def test_a_server_that_answers_a_byte_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST_SECONDS", 0.5)
    monkeypatch.setattr(http_post, "ANSWER_SECONDS", 60.0)
    listening, released = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def drip() -> None:
        taken, _ = listening.accept()
        with taken:
            while not released.wait(0.05):
                taken.sendall(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        (result,) = deliveries(f"http://127.0.0.1:{listening.getsockname()[1]}/")
    finally:
        released.set()
        thread.join()
        listening.close()
    assert result == Delivery("ml", "it did not answer within 0.5 s", is_final=False)


def test_a_malformed_key_concerns_its_own_webhook_only() -> None:
    message = Message(id="m", at=NOW, kind=NotificationKind.END, subject="s", text="t")
    hook = Webhook(kind=WebhookKind.URL, url="https://a.example/", key="whsec_A")
    assert list(webhooks.send(message, {"ml": hook}, (), NOW)) == [
        Delivery("ml", "its key is malformed", is_final=True)
    ]
