import os
import time
import tracemalloc
from pathlib import Path

import pytest

from training.host.checkpoints import on_disk
from training.host.checkpoints.catalogue import (
    Catalogue,
    Link,
    Manifest,
    Stored,
    Version,
    add_version,
    key_of,
)
from training.host.checkpoints.fetching import METADATA, damage, sha256


def version(step: int) -> Version:
    return Version(step, f"runs/r/checkpoints/{step:08d}/", "step", "2026-11-20T12:00:00.000Z", step, 1, 3)


def catalogue(*steps: int) -> Catalogue:
    newest, *before = map(version, steps)
    return Catalogue(newest, tuple(before))


@pytest.mark.parametrize(
    ("sentence", "known", "keep", "kept"),
    [
        ("the first", None, 3, [50]),
        ("those before it are kept", catalogue(40, 30), 3, [50, 40, 30]),
        ("to a number", catalogue(40, 30, 20), 3, [50, 40, 30]),
        ("only the newest", catalogue(40), 1, [50]),
        ("later ones belong to a life that was given up", catalogue(80, 60, 40), 3, [50, 40]),
        ("the same step with longer logs takes no other's room", catalogue(50, 40, 30), 3, [50, 40, 30]),
    ],
)
def test_what_is_kept(sentence: str, known: Catalogue | None, keep: int, kept: list[int]) -> None:
    assert [it.step for it in add_version(known, version(50), keep=keep).all] == kept, sentence


def test_latest_json_says_and_is_read_the_same() -> None:
    assert Catalogue.from_json(catalogue(80, 40).to_json()) == catalogue(80, 40)


def test_a_manifest_is_read_as_it_was_written() -> None:
    made = Manifest(
        {"a/b": Stored(3, 5, 0o640, "runs/r/checkpoints/00000007/a/b")},
        {"latest": Link("a", 9)},
        {"a": (4, 0o755)},
    )
    prefix = "runs/r/checkpoints/"
    assert made.to_json(prefix)["files"]["a/b"][3] == "00000007/a/b"
    assert Manifest.from_json(made.to_json(prefix), prefix) == made


def test_each_checkpoint_of_the_same_step_has_a_key_of_its_own() -> None:
    first = Version(7, key_of("r", 7, version(6)), "folder", "at")
    second = Version(7, key_of("r", 7, first), "folder", "at")
    assert (first.name, second.name) == ("00000007", "00000007.1")
    assert key_of("r", 7, second).endswith("/00000007.2/")
    assert second.manifest_key == "runs/r/checkpoints/00000007.1.json"


@pytest.mark.parametrize(
    ("kind", "at_step", "words"),
    [
        ("step", 30, "the checkpoint of step 30"),
        ("folder", 35, "the checkpoint that was saved by step 35"),
        ("folder", None, "checkpoint 30"),
    ],
)
def test_a_checkpoint_is_called_by_a_step_only_where_the_program_told_one(
    kind: str, at_step: int | None, words: str
) -> None:
    assert Version(30, "k/", kind, "at", at_step).called == words


def test_data_without_an_index_and_parts_of_tensorflow_are_halves_and_no_others(tmp_path: Path) -> None:
    whole = (
        "ckpt-3.data-00000-of-00002",
        "ckpt-3.data-00001-of-00002",
        "ckpt-3.index",
        "checkpoint",
        "my_temp/model.pt",
        "ckpt-1_temp/weights.h5",
        "part-00000-of-00002.index",
    )
    for name in (*whole, *HALVES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    files = on_disk.listing_of(tmp_path).files
    assert set(files) == {*whole, *HALVES}
    assert on_disk.halves_in(files) == set(HALVES)


@pytest.mark.parametrize(
    "name",
    [
        "0000010.pt",
        "00000010.half/variables",
        "12.keras",
        ".hidden",
        ".config/state.json",
        "model_temp/weights",
        "00000010/facts.json",
        "00000010/weights",
        "1",
        "facts.json",
        "latest.json",
    ],
)
def test_no_name_hides_a_users_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    assert set(on_disk.listing_of(tmp_path).files) == {name}
    on_disk.keep_newest(tmp_path, 1)
    assert (tmp_path / name).is_file()


def test_links_folders_and_what_is_neither_are_listed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "elsewhere"
    (folder / "step-30").mkdir(parents=True)
    (folder / "step-30/model.pt").write_text("30")
    (folder / "empty").mkdir()
    outside.write_text("outside")
    links = {
        "latest": "step-30",
        "last.pt": "step-30/model.pt",
        "absolute": str(folder / "step-30"),
        "out": str(outside),
        "dangling": "nowhere/./x/",
        "circle": "circle",
        "step-30/up": "..",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    (folder / "as-written").symlink_to("a//b/./")
    os.mkfifo(folder / "pipe")
    seen = on_disk.listing_of(folder)
    assert {name: link.target for name, link in seen.links.items()} == {**links, "as-written": "a//b/./"}
    assert set(seen.files) == {"step-30/model.pt", "out"}
    assert set(seen.folders) == {"step-30", "empty"}
    assert seen.left_out == {"pipe": "it is a pipe, a socket or a device"}


def test_a_folder_as_deep_as_a_disk_allows_is_listed_and_what_no_key_reaches_is_named(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(700):
        deep = deep / "d"
        deep.mkdir()
    (deep / "file").write_text("x")
    (name,) = on_disk.listing_of(tmp_path).left_out
    assert len(name) > 1024


def test_very_many_files_are_listed_within_two_seconds(tmp_path: Path) -> None:
    for number in range(20_000):
        (tmp_path / f"{number:05d}").touch()
    began = time.monotonic()
    assert len(on_disk.listing_of(tmp_path).files) == 20_000
    assert time.monotonic() - began < 2


def test_only_a_step_with_its_facts_is_one_of_the_runtimes(tmp_path: Path) -> None:
    for name in ("00000100", "00000200", ".trainyard-partial-00000300"):
        (tmp_path / name).mkdir()
        (tmp_path / name / METADATA).write_text("{}")
    (tmp_path / "00000400").mkdir()
    assert set(on_disk.listing_of(tmp_path).files) == {f"00000200/{METADATA}"}
    assert on_disk.steps_in(tmp_path) == [100, 200]
    on_disk.keep_newest(tmp_path, 1)
    assert on_disk.steps_in(tmp_path) == [200]


def test_a_folder_that_changes_looks_different(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/weights.h5").write_text("one")
    before = on_disk.listing_of(tmp_path)
    assert on_disk.listing_of(tmp_path) == before
    (tmp_path / "sub/weights.h5").write_text("two!")
    after = on_disk.listing_of(tmp_path)
    assert after != before
    assert on_disk.fingerprint(after.files) != on_disk.fingerprint(before.files)


HALVES = [
    "ckpt-1_temp/part-00000-of-00002.data-00000-of-00001",
    "ckpt-1_temp/part-00000-of-00002.index",
    "chief/ckpt-1_temp/part-00001-of-00002.index",
    "model.ckpt-7_temp_0a1b2c3d4e5f/part-00000-of-00002.index",
    "ckpt-4.data-00000-of-00002",
    "chief/ckpt-3.data-00001-of-00002",
]


@pytest.mark.parametrize(
    ("files", "holds"),
    [
        ({}, False),
        ({"weights.h5": ""}, False),
        ({"weights.h5": "w"}, True),
        ({"events.out.tfevents.1795317381.ip-10-73-16-136": "e", "graph.pbtxt": "g"}, False),
        ({"events.out.tfevents.1795317381.ip-10-73-16-136": "e", "model.ckpt-1.index": "i"}, True),
        ({"logs/events.out.tfevents.1.a.v2": "e"}, False),
    ],
)
def test_events_and_a_graph_are_nothing_to_go_on_from(
    tmp_path: Path, files: dict[str, str], holds: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert on_disk.hold_something(on_disk.listing_of(tmp_path).files) is holds


def test_links_show_the_folder_as_it_was_when_a_file_is_replaced(tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "taken"
    folder.mkdir()
    (folder / "checkpoint").write_text("old")
    on_disk.stage(folder, target, ["checkpoint"], {})
    (folder / "new").write_text("new")
    (folder / "new").replace(folder / "checkpoint")
    assert (target / "checkpoint").read_text() == "old"


def test_a_copy_holds_the_first_bytes_although_the_file_is_written_into(tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "taken"
    folder.mkdir()
    (folder / "log").write_text("one\ntwo")
    on_disk.stage(folder, target, [], {"log": 4})
    (folder / "log").write_text("else")
    assert (target / "log").read_text() == "one\n"
    with pytest.raises(FileNotFoundError, match="shorter"):
        on_disk.stage(folder, target, [], {"log": 5})


@pytest.mark.parametrize(
    ("files", "step"),
    [
        ({"checkpoint": 'model_checkpoint_path: "ckpt-12"\nall_model_checkpoint_paths: "ckpt-11"\n'}, 12),
        ({"checkpoint": 'model_checkpoint_path: "/var/x/model.ckpt-300"\n'}, 300),
        ({"chief/checkpoint": 'model_checkpoint_path: "ckpt-7"\n'}, 7),
        ({"checkpoint": "no such line"}, None),
        ({"weights.h5": "x"}, None),
    ],
)
def test_tensorflow_names_the_step(tmp_path: Path, files: dict[str, str], step: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert on_disk.step_of(tmp_path, on_disk.listing_of(tmp_path)) == step


@pytest.mark.parametrize(
    ("files", "lacks"),
    [
        (
            {"checkpoint": 'model_checkpoint_path: "/var/x/model.ckpt-300"\n', "model.ckpt-300.meta": ""},
            "model.ckpt-300",
        ),
        (
            {"checkpoint": 'model_checkpoint_path: "/var/x/model.ckpt-300"\n', "model.ckpt-300.index": ""},
            None,
        ),
        ({"a/checkpoint": 'model_checkpoint_path: "ckpt-7"\n', "ckpt-7.index": ""}, "ckpt-7"),
        ({"checkpoint": 'model_checkpoint_path: "final"\n', "final.index": ""}, None),
        ({"checkpoint": "a file of another kind"}, None),
        ({"weights.h5": "x"}, None),
    ],
)
def test_a_checkpoint_whose_files_lie_elsewhere_is_none(
    tmp_path: Path, files: dict[str, str], lacks: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert on_disk.missing(tmp_path, on_disk.listing_of(tmp_path)) == lacks


@pytest.mark.parametrize(
    ("sentence", "name", "text", "words"),
    [
        ("whole", "variables", "abc", None),
        ("cut short", "variables", "ab", "variables has 2 bytes instead of 3"),
        ("of the right size, with other bytes", "variables", "abd", "variables has the SHA-256"),
        ("gone", "variables", None, "variables is missing"),
    ],
)
def test_damage_is_seen(
    tmp_path: Path, sentence: str, name: str, text: str | None, words: str | None
) -> None:
    (tmp_path / "variables").write_text("abc")
    facts = f'{{"files": {{"variables": "{sha256(tmp_path / "variables")}"}}}}'
    (tmp_path / METADATA).write_text(facts)
    sizes = {"variables": 3, METADATA: len(facts)}
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    found = damage(tmp_path, sizes)
    assert (found or "").startswith(words) if words else found is None, sentence


def test_a_file_called_checkpoint_is_read_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "checkpoint").open("wb") as file:
        file.truncate(3 << 30)
    listing = on_disk.listing_of(tmp_path)
    tracemalloc.start()
    try:
        assert on_disk.step_of(tmp_path, listing) is None
        assert on_disk.missing(tmp_path, listing) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
