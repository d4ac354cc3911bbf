"""Credentials of the run. They limit this host to its run in the bucket; the host's own role may only send signals.

The agent (renewal.py) keeps them in a file. boto3 reads that file here; s5cmd and programs read it by a credential
process in an AWS config. Each of them reads the file again before its credentials expire.
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
"""Configuration of the clients of the agent and of a bake, which can wait."""

CAT = "/bin/cat"
CAT_FOLDER = "/opt/trainyard/cat"
"""The folder in a container without `cat` that has the host's (container/cat.py)."""
CAT_LOADER = f"{CAT_FOLDER}/ld.so"
CAT_OF_HOST = f"{CAT_LOADER} --library-path {CAT_FOLDER} {CAT_FOLDER}/cat"

MODELS = botocore.loaders.create_loader()
"""One loader of AWS's service models for all sessions: a list of all services takes longer than reading one model."""


def expiration(text: bytes) -> datetime:
    """Return when these credentials expire. Raises HostTrouble if the text holds no credentials."""
    try:
        return datetime.fromisoformat(json.loads(text)["Expiration"])
    except (KeyError, TypeError, ValueError) as error:
        raise HostTrouble(f"the credentials from the yard cannot be read ({error!r})") from error


def belong_to(text: bytes, run: str) -> bool:
    """Return False for the credentials of another run, such as an earlier run of this host."""
    try:
        return bool(json.loads(text).get("Run") == run)
    except (AttributeError, ValueError):
        return True  # `expiration` reports what is wrong


def configure(paths: Paths, account: Account) -> None:
    """Write the AWS config for s5cmd, programs, and all other processes that get `environment`; and the one for
    programs in an image without `cat`."""
    for file, cat in ((paths.aws_config, CAT), (paths.aws_config_without_cat, CAT_OF_HOST)):
        keep(file, f"[default]\ncredential_process = {cat} {paths.credentials}\n", account)


def keep(path: Path, text: str, account: Account) -> None:
    """Replace a file at once. Only this account and the agent may read it."""
    new = path.with_name(f".{path.name}.new")
    write_whole(new, text, mode=0o600)
    account.may_read(new)
    new.replace(path)


def environment(paths: Paths, *, has_cat: bool = True) -> dict[str, str]:
    """Return the variables that make boto3, the aws command, and s5cmd use the run's credentials only. `has_cat` is
    False for a program in an image without `cat`."""
    return {
        "AWS_CONFIG_FILE": str(paths.aws_config if has_cat else paths.aws_config_without_cat),
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
        """Return the credentials. Raises CredentialRetrievalError if they are missing or have expired."""
        try:
            text = self._path.read_bytes()
            if expiration(text) <= datetime.now(UTC):
                raise HostTrouble("the run's credentials have expired, and no new ones have arrived")
        except (OSError, HostTrouble) as error:
            raise CredentialRetrievalError(provider=self.METHOD, error_msg=str(error)) from error
        found = json.loads(text)
        return {
            "access_key": found["AccessKeyId"],
            "secret_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expiry_time": found["Expiration"],
        }


def host_session(region: str) -> boto3.Session:
    """Return a session with the credentials of this host's own role."""
    return boto3.Session(botocore_session=_session(), region_name=region)


def run_session(paths: Paths, region: str) -> boto3.Session:
    """Return a session that uses the run's credentials as soon as they exist."""
    own = _session()
    own.get_component("credential_provider").insert_before("env", _FromFile(paths.credentials))
    return boto3.Session(botocore_session=own, region_name=region)


def _session() -> botocore.session.Session:
    made = botocore.session.Session()
    made.register_component("data_loader", MODELS)
    return made
