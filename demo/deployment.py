"""`scripts/deploy` against the local cloud, left out when what it would deploy is deployed already."""

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from demo.cloud import ROOT, client_environment
from demo.say import DemoError, console, quote, say
from demo.yard import Yard, session_of

SOURCES = (
    "app.py",
    "cdk.json",
    "stacks",
    "lambdas",
    "training",
    "requirements-lambda.txt",
    "requirements-host.txt",
    "requirements-host-tf-keras.txt",
)
"""What the synthesised assembly is made of."""
CHOICES = ("-c", "look_seconds=20")
"""A local cloud's bakes take minutes, so a lost event need not cost ten."""


def deploy(environment: dict[str, str], state: Path) -> Yard:
    """The deployed yard. Deploys unless sources and stacks are those of the last deployment."""
    fingerprint = fingerprint_of(ROOT / source for source in SOURCES)
    stamp = state / "deployed"
    if stamp.exists() and stamp.read_text() == fingerprint and Yard.deployed(session_of(environment)):
        say("  deployed already, and nothing of it has changed")
        return Yard.of(environment)
    _run_deploy(environment, state)
    stamp.write_text(fingerprint)
    return Yard.of(environment)


def fingerprint_of(sources: Iterable[Path]) -> str:
    """One hash over names and contents of every source file; compiled files do not count."""
    files = sorted(
        file
        for source in sources
        for file in ([source] if source.is_file() else source.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    )
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(ROOT)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _run_deploy(environment: dict[str, str], state: Path) -> None:
    """Run the script; in a terminal its output is shown only when it fails, elsewhere as it comes."""
    log = state / "deploy.log"
    settings = {
        "BAKE": "no",
        "ASSEMBLY": str(state / "cdk.out"),
        "OUTPUTS": str(state / "outputs.json"),
        "CI": "true",
    }
    with console.status("cdk deploy ..."), log.open("w") as lines:
        done = subprocess.run(
            [str(ROOT / "scripts" / "deploy"), *CHOICES],
            cwd=ROOT,
            env=client_environment(environment) | settings,
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        quote("\n".join(log.read_text().splitlines()[-40:]))
        raise DemoError(
            f"the deployment failed with exit code {done.returncode}; see above, and all of it in {log}",
            "mend what it says; `make demo` continues from there",
        )
