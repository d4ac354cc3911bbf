"""TensorFlow Serving's gRPC interface, by the messages of tensorflow-serving-api, on the loopback interface."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from training.programs.serving.idle import Idle
from training.programs.serving.model import Model

PACKAGE = "tensorflow_serving"
ABSENT = (
    "gRPC is not served, because this image lacks tensorflow-serving-api: a bake installs it for TensorFlow of the "
    "yard. REST answers"
)
THREADS = 8
GRACE_SECONDS = 5.0
"""How long requests may be answered after the end of the idle time."""


@contextmanager
def serving(model: Model, idle: Idle, port: int) -> Iterator[int | None]:
    """Serve in threads. Yield the port, which is free if 0 is given; None on an image without the messages."""
    if importlib.util.find_spec(PACKAGE) is None:
        yield None
        return
    import grpc

    from training.programs.serving import grpc_services

    unlimited = [(f"grpc.max_{way}_message_length", -1) for way in ("receive", "send")]
    server = grpc.server(ThreadPoolExecutor(THREADS), options=unlimited)
    grpc_services.add(server, model, idle)
    opened = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield int(opened)
    finally:
        server.stop(GRACE_SECONDS).wait()
