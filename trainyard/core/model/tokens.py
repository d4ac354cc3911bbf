"""Names and tokens, derived from their inputs without randomness, so that every action can be repeated safely."""

import hashlib


def run_id(name: str, *, key: str, version: str) -> str:
    """Return the id `<name>-<8 hex>` of a run: one version of one object is one run.

    `version` is the version id, or the etag if the bucket keeps no versions. Every valid job name gives a valid
    execution name.
    """
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
    """Return the client token of one CreateFleet or RunInstances, at most 64 characters, which begins with the run.

    EC2 keeps client tokens by account and region, where another yard may have a run of the same name.
    """
    return (
        f"{run[:40]}-{_hex(yard, run, str(attempt), str(candidate), str(round), str(gang), str(rate))[:23]}"
    )


def request_suffix(run: str) -> str:
    """Return the end of the name of the request that a run sends about a model."""
    return _hex(run)[:6]


def _hex(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
