"""The registry of a container image, with the login that it asks for."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from training.host.container.registry import Login, Registry
from training.host.credentials import CALLS
from training.host.errors import HostTrouble, Unreachable
from training.host.metadata import Identity
from training.host.outages import is_passing_error
from training.host.program import secrets
from trainyard.protocol.containers import Container
from trainyard.protocol.tags import Tag

ASKS = "ecr:GetAuthorizationToken"
READS = "ecr:BatchGetImage and ecr:GetDownloadUrlForLayer"


def of_run(identity: Identity, session: boto3.Session) -> "Logins":
    """Return the logins of a run. The session has its credentials."""
    return Logins(session=session, yard=identity.tags[Tag.YARD], who="the role of runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """Logs in to registries, with the credentials of a session."""

    session: boto3.Session
    yard: str
    who: str
    """The role of the session, as users name it."""

    def open(self, container: Container, *, stopped: Callable[[], bool] = lambda: False) -> Registry:
        """Return the registry of an image. The login is made once the registry asks for it."""
        reference = container.reference
        known: list[Login] = []

        def log_in() -> Login:
            if not known:
                known.append(self._login(container))
            return known[0]

        return Registry(
            url=f"https://{reference.address}",
            repository=reference.repository,
            name=reference.name,
            login=log_in,
            stopped=stopped,
        )

    def _client(self, service: str, region: str | None = None) -> Any:
        return self.session.client(service, region_name=region, config=CALLS)

    def _login(self, container: Container) -> Login:
        reference = container.reference
        if reference.ecr:
            return self._login_to_ecr(reference.ecr["region"])
        if container.login:
            found = secrets.fetch(
                {"LOGIN": container.login}, yard=self.yard, client=lambda: self._client("ssm")
            )
            advice = (
                f"store the current `user:password` in the secret {container.login}, which program.container.login "
                "names"
            )
            return Login(basic=found["LOGIN"].strip(), advice=advice)
        return Login()

    def _login_to_ecr(self, region: str) -> Login:
        advice = (
            f"{self.who} needs {READS} there: list the repository in the setting registries; a repository of "
            "another account must allow it in its own policy, too"
        )
        try:
            answer = self._client("ecr", region).get_authorization_token()
        except ClientError as error:
            if is_passing_error(error):
                raise Unreachable(f"{ASKS} failed: {error}") from error
            raise HostTrouble(f"{ASKS} failed: {error}; {advice}", final=True) from error
        except BotoCoreError as error:
            raise Unreachable(f"{ASKS} failed: {error}") from error
        token = answer["authorizationData"][0]["authorizationToken"]
        return Login(basic=base64.b64decode(token).decode(), advice=advice)
