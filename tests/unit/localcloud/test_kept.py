"""Writes of the local cloud's state after changes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ministack.core.responses import request_scope
from ministack.services import cloudformation
from typer.testing import CliRunner

from localcloud.base.state import FORMAT_FILE, KEPT, Store, has_other_format
from localcloud.cli.commands import app
from localcloud.server.ministack_state import Stacks


@pytest.fixture
def stacks() -> Iterator[Stacks]:
    with request_scope("123456789012", "us-east-1"):
        cloudformation._stacks["yard"] = {"StackStatus": "CREATE_COMPLETE"}
        yield Stacks(answering)
        del cloudformation._stacks["yard"]


async def answering(*_: Any) -> Any:
    return 200, {}, b""


def test_stacks_are_written_after_a_start_and_after_each_request(stacks: Stacks) -> None:
    assert [stacks.may_differ(), stacks.may_differ()] == [True, False]
    assert asyncio.run(stacks.handle("POST", "/", {}, b"", {})) == (200, {}, b"")
    assert [stacks.may_differ(), stacks.may_differ()] == [True, False]


def test_stacks_are_written_while_one_is_worked_on_and_once_more_at_its_end(stacks: Stacks) -> None:
    assert stacks.may_differ()
    cloudformation._stacks["yard"]["StackStatus"] = "UPDATE_IN_PROGRESS"
    assert [stacks.may_differ(), stacks.may_differ()] == [True, True]
    cloudformation._stacks["yard"]["StackStatus"] = "UPDATE_COMPLETE"
    assert [stacks.may_differ(), stacks.may_differ()] == [True, False]


def test_what_does_not_differ_is_not_saved(tmp_path: Path) -> None:
    saved: list[bytes] = []
    store, answers = Store(tmp_path), [True, False, True]

    def save() -> bytes:
        saved.append(b"%d" % len(saved))
        return saved[-1]

    store.keep("part", save, saved.append, lambda: answers.pop(0))
    for _ in range(3):
        store.write()
    assert saved == [b"0", b"1"]
    assert (tmp_path / "part.kept").read_bytes() == b"1"


def test_what_could_not_be_written_is_written_at_the_next_time(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.write_text("in the way")
    store, answers = Store(folder), [True, False]
    store.keep("part", lambda: b"all", lambda _: None, lambda: answers.pop(0))
    store.write()
    assert "part" in store.failed
    folder.unlink()
    store.write()
    assert (store.failed, (folder / "part.kept").read_bytes()) == ({}, b"all")


def test_a_state_of_another_version_is_refused_with_one_line_and_stays_as_it_is(tmp_path: Path) -> None:
    kept = tmp_path / KEPT
    store = Store(kept)
    store.keep("part", lambda: b"all", lambda _: None)
    store.write()
    assert not has_other_format(kept)
    for mark in ("1", None):
        (kept / FORMAT_FILE).write_text(mark) if mark else (kept / FORMAT_FILE).unlink()
        done = CliRunner().invoke(app, ["up", "--state", str(tmp_path), "--port", "1"])
        assert (done.exit_code, done.output.count("\n")) == (1, 1)
        assert done.output.startswith(
            f"Another version of the local cloud has written the state folder {tmp_path}. "
        )
        assert (kept / "part.kept").read_bytes() == b"all"


def test_a_folder_without_kept_parts_is_of_any_version(tmp_path: Path) -> None:
    assert not has_other_format(tmp_path / KEPT)
