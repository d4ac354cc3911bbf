"""Clients of a running local cloud."""

from __future__ import annotations

from functools import cache
from typing import Any

from botocore.config import Config

from trainyard.client import Session

AS_IT_IS = Config(parameter_validation=False, retries={"max_attempts": 0}, inject_host_prefix=False)
"""Every request must reach the endpoint: botocore would refuse some of them itself."""


class Clients:
    """Clients by service, each made once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.of = cache(self._of)

    def _of(self, service: str) -> Any:
        return self._session.boto.client(service, endpoint_url=self._session.endpoint, config=AS_IT_IS)
