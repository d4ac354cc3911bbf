"""Names and tokens that are derived, never drawn: the same facts give the same token, so every act may happen twice."""


def run_id(name: str, *, key: str, version: str) -> str:
    """`<name>-<8 hex>`: one version of one object is one run. `version` is the version id, or the etag where
    the bucket keeps no versions. A legal execution name for every input."""
    raise NotImplementedError


def client_token(run: str, *, attempt: int, offer: int, round: int) -> str:
    """The CreateFleet / RunInstances token of one ask: at most 64 characters of [a-zA-Z0-9-], readable where it fits."""
    raise NotImplementedError


def image_name(run: str, *, attempt: int) -> str:
    """The name of the snapshot image (CreateImage has no token: its name makes it happen once)."""
    raise NotImplementedError


def is_execution_name(name: str) -> bool:
    """Whether Step Functions, CloudWatch Logs, S3 keys and tags all take this name: [A-Za-z0-9_-], 1 to 80."""
    raise NotImplementedError
