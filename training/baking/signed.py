"""Install Debian packages that are not in a repository, only with their maker's signature."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from training.baking.builder import Builder
from training.baking.packages import APT, APT_ENVIRONMENT
from training.host.errors import HostTrouble

FETCH = ("curl", "-fsS", "--retry", "5", "--max-time", "300", "-o")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPackage:
    """A package at a URL, and the key that must have signed it."""

    called: str
    url: str
    signature: str
    key: str
    """The URL of a file of keys."""
    fingerprint: str
    consequence: str
    """The consequence of a missing package and the next step, as the end of a sentence."""


def install_signed(builder: Builder, package: SignedPackage) -> None:
    """Fetch the package, check its signature, and install it. Raises HostTrouble."""
    with tempfile.TemporaryDirectory() as place:
        deb, signature, key = (str(Path(place) / name) for name in ("package.deb", "package.sig", "key.gpg"))
        for url, path in ((package.url, deb), (package.signature, signature), (package.key, key)):
            must(builder, package, f"fetching {url}", *FETCH, path, url)
        keys, trusted = ("gpg", "--batch", "--homedir", place), str(Path(place) / "trusted.gpg")
        called, fingerprint = package.called, package.fingerprint
        must(builder, package, f"reading the key of {called}", *keys, "--import", key)
        must(builder, package, f"looking for AWS's key {fingerprint}", *keys, "--list-keys", fingerprint)
        # The file may contain other keys, too. A package that those have signed is not AWS's.
        must(
            builder, package, "selecting only AWS's key", *keys, "--output", trusted, "--export", fingerprint
        )
        checking = f"checking AWS's signature of {called}"
        must(builder, package, checking, "gpgv", "--keyring", trusted, signature, deb)
        must(builder, package, f"installing {called}", *APT, "install", deb)


def must(builder: Builder, package: SignedPackage, doing: str, *command: str) -> None:
    """Run a command. Raises HostTrouble if it fails."""
    done = builder.shell.run(command, environment=APT_ENVIRONMENT)
    if not done.is_good:
        raise HostTrouble(f"{doing} failed ({done.reason}): {done.last_lines()}; {package.consequence}")
