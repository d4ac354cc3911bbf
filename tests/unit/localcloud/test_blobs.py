"""Large values of ministack's stores in separate files."""

import sys
import threading
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


def test_what_is_saved_is_not_copied_and_what_others_ask_for_meanwhile_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = {"row": ["value"]}
    seen: dict[str, Any] = {}

    def get_state() -> dict[str, Any]:
        saved = ministack_state.Copying.deepcopy(store)
        asking = threading.Thread(target=lambda: seen.update(copy=ministack_state.Copying.deepcopy(store)))
        asking.start()
        asking.join()
        seen["saved"] = saved
        return dict(saved)

    monkeypatch.setitem(sys.modules, "ministack.services.made_up", SimpleNamespace(get_state=get_state))
    assert ministack_state._save("made_up", Blobs(tmp_path)) == b'{"row": ["value"]}'
    assert seen["saved"] is store
    assert seen["copy"] == store
    assert seen["copy"]["row"] is not store["row"]
    assert ministack_state.Copying.deepcopy(store)["row"] is not store["row"]
