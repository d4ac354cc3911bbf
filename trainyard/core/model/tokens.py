"""Names and tokens, derived and never drawn: the same facts give the same one, so every act may happen twice."""

import hashlib


def run_id(name: str, *, key: str, version: str) -> str:
    """`<name>-<8 hex>`: one version of one object is one run. `version` is the version id, or the etag where
    the bucket keeps no versions. A legal execution name for every legal job name."""
    return f"{name}-{_hex(key, version)[:8]}"


def client_token(
    run: str,
    *,
    yard: str,
    attempt: int,
    candidate: int,
    round: int,  # noqa: A002 - the domain's word
    gang: int = 1,
    rate: int = 0,
) -> str:
    """The CreateFleet / RunInstances token of one ask, at most 64 characters; begins with the run to be found.

    EC2 keeps tokens by account and region, where another yard may have a run of the same name."""
    return (
        f"{run[:40]}-{_hex(yard, run, str(attempt), str(candidate), str(round), str(gang), str(rate))[:23]}"
    )


def _hex(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
