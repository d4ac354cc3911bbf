"""A bucket in memory."""

from collections.abc import Iterator

from training.host.bucket import Bucket, Object


class Objects(Bucket):
    """A bucket in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def read(self, key: str) -> bytes:
        return self.objects[key]

    def list(self, prefix: str) -> Iterator[Object]:
        return (
            Object(key, len(body), "", "") for key, body in self.objects.items() if key.startswith(prefix)
        )

    def write(self, key: str, body: bytes) -> None:
        self.objects[key] = body
