"""Third-party files of the page: unchanged from npm, each with its license."""

import hashlib
from pathlib import Path

import trainyard.ui

VENDOR = Path(trainyard.ui.__file__).with_name("static") / "vendor"
FILES = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse-4.0.1.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
    "uplot-1.6.32.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
LICENCES = {"htmx": "htmx.LICENSE", "hx": "htmx.LICENSE", "uplot": "uplot.LICENSE"}


def test_every_file_is_the_one_that_was_published() -> None:
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.iterdir()
        if file.suffix != ".LICENSE"
    }
    assert found == FILES


def test_every_file_has_its_licence() -> None:
    for name in FILES:
        assert (VENDOR / LICENCES[name.partition("-")[0]]).read_text()


def test_pages_use_these_and_no_other() -> None:
    base = (VENDOR.parents[1] / "templates" / "base.html").read_text()
    assert all(f"/static/vendor/{name}" in base for name in FILES)
