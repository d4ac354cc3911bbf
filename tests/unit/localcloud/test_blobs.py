"""Large values of ministack's stores, in files of their own."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localcloud.server import ministack_state
from localcloud.server.ministack_state import LARGE, Blobs, remove_replaced


def test_what_no_kept_part_names_goes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, kept = tmp_path / "blobs", tmp_path / "kept"
    kept.mkdir()
    written = Blobs(blobs)
    for code in (b"1" * LARGE, b"2" * LARGE):
        service: Any = SimpleNamespace(get_state=lambda code=code: {"f": {"code_zip": code}})
        monkeypatch.setitem(sys.modules, "ministack.services.made_up", service)
        content = ministack_state._save("made_up", written)
        assert content
        (kept / "ministack-lambda.kept").write_bytes(content)
    assert len(list(blobs.iterdir())) == 2
    remove_replaced(blobs, kept)
    assert [file.read_bytes() for file in blobs.iterdir()] == [b"2" * LARGE]
