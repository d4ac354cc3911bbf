"""Sessions of boto3 that raise errors of this package when AWS refuses a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Self

import boto3
from botocore import exceptions
from botocore.config import Config

from trainyard.client import grants
from trainyard.client.errors import Denied, NoAnswer, NoCredentials, NoRegion
from trainyard.command_line import command_line

CONFIG = Config(retries={"mode": "standard", "max_attempts": 4}, max_pool_connections=32)
SENT_AT_ONCE = 8 * 2**20
"""The size in bytes below which a body is sent without asking S3 first."""
HASTY = Config(retries={"max_attempts": 0}, connect_timeout=1, read_timeout=2)
"""The settings of callers who prefer no answer to waiting."""
NOT_FOUND = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
)
NOT_ACCEPTED = (
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
NOT_ALLOWED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
SIGN_IN = "aws configure, or aws sso login; which credentials are used: aws configure list"


@dataclass(frozen=True)
class Session:
    """A session of boto3. `endpoint` replaces AWS's own; without it, boto3 selects one (AWS_ENDPOINT_URL).

    Each client is created once. Use a session in one thread only, as with boto3.
    """

    boto: boto3.Session
    endpoint: str | None = None
    patient: bool = True
    _made: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        profile: str | None = None,
        region: str | None = None,
        endpoint: str | None = None,
        *,
        patient: bool = True,
    ) -> Self:
        """Make a session. Missing values are read from the environment and ~/.aws, as boto3 does. If not `patient`,
        calls raise NoAnswer after 2 s. Raise NoCredentials for an unknown profile."""
        try:
            return cls(boto3.Session(profile_name=profile, region_name=region), endpoint, patient)
        except exceptions.ProfileNotFound as error:
            raise NoCredentials(str(error), "~/.aws/config does not have it", SIGN_IN) from error

    @property
    def region(self) -> str:
        """Return the region's name, or an empty text without one."""
        return self.boto.region_name or ""

    def client(self, service: str) -> Any:
        """Return a client of this service whose calls raise Denied, NoCredentials and NoAnswer."""
        return self._once("client", service)

    def resource(self, service: str) -> Any:
        """Return a resource of this service whose calls raise Denied, NoCredentials and NoAnswer."""
        return self._once("resource", service)

    def _once(self, kind: str, service: str) -> Any:
        if (kind, service) not in self._made:
            self._made[kind, service] = self._make(kind, service)
        return self._made[kind, service]

    def _make(self, kind: str, service: str) -> Any:
        config = CONFIG if self.patient else HASTY
        try:
            made = getattr(self.boto, kind)(service, endpoint_url=self.endpoint, config=config)
        except exceptions.NoRegionError as error:
            next_step = "export AWS_REGION=us-east-1 (or where you have deployed), or aws configure"
            raise NoRegion("no region is set", "a yard is in one region", next_step) from error
        events = (made if kind == "client" else made.meta.client).meta.events
        events.register_last("before-call.s3", _send_at_once)
        events.register("after-call-error", _not_sent)
        events.register("after-call", _raise_refusal)
        return made


def _send_at_once(params: dict[str, Any], **_: Any) -> None:
    """Send a small body with its headers. botocore would ask S3 for permission first, which takes as long as the
    answer."""
    body, headers = params.get("body"), params["headers"]
    if headers.get("Expect") and isinstance(body, BytesIO) and body.getbuffer().nbytes < SENT_AT_ONCE:
        del headers["Expect"]


def _not_sent(exception: Exception, **_: Any) -> None:
    """Raise NoCredentials or NoAnswer for a request without an answer. botocore calls this function."""
    if isinstance(exception, NOT_FOUND):
        raise NoCredentials("no credentials", str(exception), SIGN_IN) from exception
    if isinstance(exception, exceptions.ConnectionError | exceptions.HTTPClientError):
        next_step = (
            f"look at AWS_ENDPOINT_URL and the network; of a local cloud: {command_line('local', 'status')}"
        )
        raise NoAnswer("no answer", str(exception).rstrip("."), next_step) from exception


def _raise_refusal(parsed: dict[str, Any], model: Any, **_: Any) -> None:
    """Raise NoCredentials or Denied if AWS refused a request. botocore calls this function."""
    error = parsed.get("Error") or {}
    code, message = error.get("Code", ""), str(error.get("Message", "")).rstrip(".")
    action = f"{model.service_model.signing_name}:{model.name}"
    if code in NOT_ACCEPTED:
        raise NoCredentials(f"AWS did not accept the credentials ({code})", message, SIGN_IN)
    if code in NOT_ALLOWED:
        told, on = grants.ACTION.search(message), grants.RESOURCE.search(message)
        action = told[1] if told else action
        raise Denied(f"{action} was denied", message, grants.advice(action, on[1] if on else ""))
