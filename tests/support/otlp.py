"""A receiver of OpenTelemetry metrics by HTTP: a program for the Python that has opentelemetry-proto (`make trackers`).

`python otlp.py FILE [STATUS|hang|to:URL]` prints its port, and appends each request to FILE as a line of JSON.
"""

import http.server
import json
import sys
import time
from pathlib import Path


class Receiver(http.server.BaseHTTPRequestHandler):
    file: Path
    how = "200"

    def do_POST(self) -> None:
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportMetricsServiceRequest.FromString(body)
        noted = {
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "request": MessageToDict(request),
        }
        with self.file.open("a") as lines:
            lines.write(json.dumps(noted) + "\n")
        if self.how == "hang":
            time.sleep(600)
        redirects = self.how.startswith("to:")
        self.send_response(307 if redirects else int(self.how))
        if redirects:
            self.send_header("Location", self.how.removeprefix("to:"))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        return


if __name__ == "__main__":
    Receiver.file = Path(sys.argv[1])
    Receiver.how = sys.argv[2] if len(sys.argv) > 2 else "200"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    print(server.server_port, flush=True)
    server.serve_forever()
