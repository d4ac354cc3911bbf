"""Credentials of the run: what this host may do in the bucket is its run's; its own role may only speak for itself.

The agent (renewal.py) keeps them in a file. boto3 here reads that; s5cmd and programs do by an AWS config with a
credential process. Each reads it anew before what it has ends.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.credentials import CredentialProvider, DeferredRefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from training.host.account import Account
from training.host.errors import HostTrouble
from training.host.orders import write_whole
from training.host.paths import Paths

CALLS = Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 6})
"""For clients that have time: of the agent, and of a bake."""

MODELS = botocore.loaders.create_loader()
"""What all sessions of a process know of AWS's services: each would list all of them for its first client, which takes
longer than to read one."""


def ends(text: bytes) -> datetime:
    """When these credentials end. Raises HostTrouble for what are none."""
    try:
        return datetime.fromisoformat(json.loads(text)["Expiration"])
    except (KeyError, TypeError, ValueError) as error:
        raise HostTrouble(f"what the yard left as credentials are none ({error!r})") from error


def are_of(text: bytes, run: str) -> bool:
    """Whether they are that run's, and not those of an earlier one of this host."""
    try:
        return bool(json.loads(text).get("Run") == run)
    except (AttributeError, ValueError):
        return True  # no credentials at all, which `ends` says


def configure(paths: Paths, account: Account) -> None:
    """Write the AWS config for s5cmd, programs and whoever else is given `environment`."""
    config = f"[default]\ncredential_process = /bin/cat {paths.credentials}\n"
    keep(paths.aws_config, config, account)


def keep(path: Path, text: str, account: Account) -> None:
    """Write what this account alone may read beside the agent. Nobody ever reads half of it, or finds none."""
    new = path.with_name(f".{path.name}.new")
    write_whole(new, text, mode=0o600)
    account.may_read(new)
    new.replace(path)


def environment(paths: Paths) -> dict[str, str]:
    """What makes boto3, the aws command and s5cmd take the run's credentials, and never the host's own."""
    return {
        "AWS_CONFIG_FILE": str(paths.aws_config),
        "AWS_SDK_LOAD_CONFIG": "1",  # s5cmd's SDK reads no config without it
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class _FromFile(CredentialProvider):  # type: ignore[misc]
    METHOD = CANONICAL_NAME = "trainyard-run"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load(self) -> Any:
        return DeferredRefreshableCredentials(self._read, self.METHOD)

    def _read(self) -> dict[str, str]:
        """Raises CredentialRetrievalError while there are none that hold."""
        try:
            text = self._path.read_bytes()
            if ends(text) <= datetime.now(UTC):
                raise HostTrouble("those of the run have ended, and no new ones have come")
        except (OSError, HostTrouble) as error:
            raise CredentialRetrievalError(provider=self.METHOD, error_msg=str(error)) from error
        found = json.loads(text)
        return {
            "access_key": found["AccessKeyId"],
            "secret_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expiry_time": found["Expiration"],
        }


def of_the_host(region: str) -> boto3.Session:
    """boto3 with the credentials of this host's own role."""
    return boto3.Session(botocore_session=_session(), region_name=region)


def of_the_run(paths: Paths, region: str) -> boto3.Session:
    """boto3 with the run's credentials, once they are there."""
    own = _session()
    own.get_component("credential_provider").insert_before("env", _FromFile(paths.credentials))
    return boto3.Session(botocore_session=own, region_name=region)


def _session() -> botocore.session.Session:
    made = botocore.session.Session()
    made.register_component("data_loader", MODELS)
    return made
