"""Signatures of a host's requests. AWS refuses a request whose time is wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from simulation.aws.endpoint.api import Answer, ServiceError

MOST_OFF, MOST_OFF_FOR_S3 = timedelta(minutes=5), timedelta(minutes=15)
Call = Callable[..., Answer]


def dated(call: Call, ahead: Callable[[], timedelta]) -> Call:
    """Refuse the calls of a clock that is `ahead` of AWS's by too much, or behind it."""

    def call_in_time(*names: str, **request: Any) -> Answer:
        service, off = names[-2], ahead()
        if service == "s3" and abs(off) > MOST_OFF_FOR_S3:
            words = "The difference between the request time and the current time is too large."
            raise ServiceError("RequestTimeTooSkewed", words, status=403)
        if service != "s3" and abs(off) > MOST_OFF:
            words = "Signature not yet current" if off > timedelta() else "Signature expired"
            raise ServiceError("InvalidSignatureException", f"{words}: the clock is {off} ahead", status=403)
        return call(*names, **request)

    return call_in_time
