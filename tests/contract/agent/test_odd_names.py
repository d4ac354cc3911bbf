"""File names that the bucket cannot store: the files are skipped and reported, and the run ends normally."""

import pytest

from tests.contract.agent.host import Yard

WRITES = r"""
import os, pathlib

for variable in ("TRAINYARD_MODEL", "TRAINYARD_CHECKPOINTS", "TRAINYARD_TENSORBOARD"):
    folder = os.fsencode(os.environ[variable])
    deep = folder + b"/" + b"/".join([b"d" * 250] * 4)
    os.makedirs(deep, exist_ok=True)
    good = "läuft 'a' \"b\" %2F+&.txt".encode()
    for name in (b"r\xe9sum\xe9.txt", b"a\x01b", b"two\nlines", good, b"d" * 250 + b"/x"):
        pathlib.Path(os.fsdecode(folder + b"/" + name)).write_text("kept")
    pathlib.Path(os.fsdecode(deep + b"/too-long")).write_text("x" * 10)
"""


@pytest.mark.parametrize("folder", ["model", "tensorboard", "checkpoints"])
def test_a_name_that_no_bucket_can_store_neither_ends_nor_repeats_a_run(yard: Yard, folder: str) -> None:
    yard.prepare(WRITES)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    prefix = f"runs/{yard.run}/{folder}/"
    found = {key.removeprefix(prefix) for key in yard.keys(prefix)}
    if folder == "checkpoints":
        found = set(yard.checkpoint())
    assert found == {"läuft 'a' \"b\" %2F+&.txt", "d" * 250 + "/x"}
    log = yard.log()
    for name, why in {
        r"r\xe9sum\xe9.txt": "its name is not UTF-8",
        r"a\x01b": "its name contains a control character",
        r"two\nlines": "its name contains a control character",
        "/".join(["d" * 250] * 4) + "/too-long": "bytes, and S3 allows 1024",
    }.items():
        line = next(line for line in log.splitlines() if f"${{{folder}}}/{name} is left out" in line)
        assert why in line
