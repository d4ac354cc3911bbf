"""A receiver of webhooks in the network of a local cloud: a function that listens, as functions share one machine."""

import io
import json
import zipfile
from typing import Any

RECEIVER = """
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATE = {"status": 204, "location": "", "hangs": False}
REQUESTS = []

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        hangs, status = STATE["hangs"], STATE["status"]
        is_taken = status < 300 and not hangs
        REQUESTS.append({"path": self.path, "headers": headers, "body": body, "is_taken": is_taken})
        if hangs:
            threading.Event().wait(60)
            return
        self.send_response(status)
        if STATE["location"]:
            self.send_header("location", STATE["location"])
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

SERVER = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=SERVER.serve_forever, daemon=True).start()

def handler(event, context):
    STATE.update(event)
    return {"port": SERVER.server_address[1], "requests": REQUESTS}
"""


class Receiver:
    """The server. It answers `status`, or nothing while it `hangs`, and remembers the requests."""

    def __init__(self, lambda_client: Any, function: str) -> None:
        self._client, self.function = lambda_client, function
        self.url = f"http://127.0.0.1:{self.set()['port']}"

    @staticmethod
    def make(lambda_client: Any, name: str, role: str) -> "Receiver":
        """Create the function under this role, and return its server."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("index.py", RECEIVER)
        lambda_client.create_function(
            FunctionName=name,
            Runtime="python3.11",
            Handler="index.handler",
            Role=role,
            Code={"ZipFile": content.getvalue()},
            Timeout=30,
        )
        return Receiver(lambda_client, name)

    def set(self, **state: Any) -> dict[str, Any]:
        """Change `status`, `location` or `hangs`; return the port and the requests."""
        answer = self._client.invoke(FunctionName=self.function, Payload=json.dumps(state).encode())
        found: dict[str, Any] = json.loads(answer["Payload"].read())
        return found

    @property
    def requests(self) -> list[dict[str, Any]]:
        return list(self.set()["requests"])

    @property
    def taken(self) -> list[dict[str, Any]]:
        """Return the requests that were answered with success."""
        return [each for each in self.requests if each["is_taken"]]
