"""Decide which version answers a request to `default`, and which one is its shadow. Pure.

Requests with equal keys get equal versions as long as the canary lasts. Another canary draws other keys."""

import hashlib

from trainyard.protocol.ledger.models import DEFAULT, Canary, ModelRow


def find_canary(row: ModelRow, alias: str, key: str) -> int | None:
    """Return the version of the canary if it answers this request."""
    return _version_of(row.canary, alias, key)


def find_shadow(row: ModelRow, alias: str, key: str) -> int | None:
    """Return the version of the shadow if it also computes this request."""
    return _version_of(row.shadow, alias, key)


def _version_of(canary: Canary | None, alias: str, key: str) -> int | None:
    if canary is None or alias != DEFAULT:
        return None
    return canary.version if draw(canary.request, key) < canary.percent / 100 else None


def draw(request: str, key: str) -> float:
    """Return a number from 0 to 1, the same for the same canary and key."""
    digest = hashlib.sha256(f"{request}\0{key}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
