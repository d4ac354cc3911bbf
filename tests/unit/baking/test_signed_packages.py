"""The CloudWatch agent is installed only with AWS's signature. The keys and gpg are real, the bucket is a folder."""

import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.objects import Objects
from tests.unit.baking.builder import Host
from training.baking import cloudwatch
from training.baking.log import BuilderLog
from training.baking.signed import install_signed
from training.host.errors import HostTrouble
from training.host.paths import Paths

pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="this machine has no gpg")


class Signers:
    """AWS and an attacker, each with a key."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self._gpg = ("gpg", "--batch", "--quiet", "--homedir", str(home), "--pinentry-mode", "loopback")
        for name in ("aws", "mallory"):
            self._run("--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never")

    def _run(self, *arguments: str) -> str:
        return subprocess.run([*self._gpg, *arguments], check=True, capture_output=True, text=True).stdout

    def fingerprint(self, name: str) -> str:
        lines = self._run("--with-colons", "--list-keys", name).splitlines()
        return next(line.split(":")[9] for line in lines if line.startswith("fpr:"))

    def keys(self, path: Path, *names: str) -> None:
        path.write_text(self._run("--armor", "--export", *names))

    def sign(self, path: Path, name: str) -> None:
        signature = str(path) + ".sig"
        self._run("--yes", "--local-user", name, "--output", signature, "--detach-sign", str(path))


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signers]:
    home = tmp_path_factory.mktemp("signers") / "gpg"
    yield Signers(home)
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


@pytest.mark.parametrize(
    ("keys", "signer", "changed", "refusal"),
    [
        (("aws",), "aws", False, None),
        (("mallory", "aws"), "aws", False, None),
        (("mallory",), "mallory", False, "looking for AWS's key"),
        (("aws",), "mallory", False, "checking AWS's signature"),
        (("aws", "mallory"), "mallory", False, "checking AWS's signature"),
        (("aws",), "aws", True, "checking AWS's signature"),
    ],
    ids=["AWS's", "beside another key", "another key", "signed by another", "another key beside", "changed"],
)
def test_the_agent_is_installed_with_awss_signature_alone(
    signers: Signers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: tuple[str, ...],
    signer: str,
    changed: bool,
    refusal: str | None,
) -> None:
    package, key, message = tmp_path / "agent.deb", tmp_path / "key.gpg", io.StringIO()
    package.write_bytes(b"the agent")
    signers.sign(package, signer)
    signers.keys(key, *keys)
    if changed:
        package.write_bytes(b"another agent")
    monkeypatch.setattr(cloudwatch, "SIGNED_BY", signers.fingerprint("aws"))
    monkeypatch.setattr(cloudwatch, "PACKAGE", package.as_uri())
    monkeypatch.setattr(cloudwatch, "KEY", key.as_uri())
    paths = Paths(tmp_path / "host")
    paths.root.mkdir()
    with BuilderLog("test", Objects(), "bake-1", "i-1", paths, echo=message) as log:
        host = Host(paths.root, monkeypatch, log)
        host.says("apt-get", "installing")
        builder = host.bench().builder
        if refusal is None:
            install_signed(builder, cloudwatch.package("us-east-1"))
        else:
            with pytest.raises(HostTrouble, match=refusal):
                install_signed(builder, cloudwatch.package("us-east-1"))
    assert ("installing" in message.getvalue().splitlines()) == (refusal is None)
