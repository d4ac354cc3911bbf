from pathlib import Path

import pytest

from training.host.checkpoints import on_disk
from training.host.checkpoints.in_bucket import Catalogue, Manifest, damage, following, sha256


def manifest(step: int) -> Manifest:
    return Manifest(
        step, f"runs/r/checkpoints/{step:08d}/", "step", {"variables": 3}, "2026-11-20T12:00:00.000Z"
    )


def catalogue(*steps: int) -> Catalogue:
    newest, *before = map(manifest, steps)
    return Catalogue(newest, tuple(before))


@pytest.mark.parametrize(
    ("sentence", "known", "keep", "kept"),
    [
        ("the first", None, 3, [50]),
        ("those before it are kept", catalogue(40, 30), 3, [50, 40, 30]),
        ("to a number", catalogue(40, 30, 20), 3, [50, 40, 30]),
        ("one is the newest alone", catalogue(40), 1, [50]),
        ("later ones belong to a life that was given up", catalogue(80, 60, 40), 3, [50, 40]),
    ],
)
def test_what_is_kept(sentence: str, known: Catalogue | None, keep: int, kept: list[int]) -> None:
    assert [it.step for it in following(known, manifest(50), keep=keep).all] == kept, sentence


def test_latest_json_says_and_is_read_the_same() -> None:
    assert Catalogue.from_json(catalogue(80, 40).to_json()) == catalogue(80, 40)


def test_data_count_once_their_index_is_there(tmp_path: Path) -> None:
    whole = (
        "ckpt-3.data-00000-of-00002",
        "ckpt-3.data-00001-of-00002",
        "ckpt-3.index",
        "checkpoint",
        "my_temp",
    )
    for name in (*whole, "ckpt-4.data-00000-of-00001"):
        (tmp_path / name).write_text("x")
    assert set(on_disk.listing_of(tmp_path)) == set(whole)


def test_only_a_step_with_its_facts_is_one_of_the_runtimes(tmp_path: Path) -> None:
    for name in ("00000100", "00000200", "00000300.half"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "facts.json").write_text("{}")
    (tmp_path / "400").mkdir()
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
    assert on_disk.fingerprint(after) != on_disk.fingerprint(before)


HALVES = [
    "00000012.half/variables",
    ".trainyard-x/variables",
    "ckpt-1_temp/part-00000-of-00002.data-00000-of-00001",
    "ckpt-1_temp/part-00000-of-00002.index",
    "chief/ckpt-1_temp/part-00001-of-00002.index",
    "model.ckpt-7_temp_0a1b2c3d4e5f/part-00000-of-00002.index",
    "ckpt-3.data-00000-of-00002",
    "chief/ckpt-3.data-00001-of-00002",
]


@pytest.mark.parametrize("name", HALVES)
def test_what_is_still_being_made_is_no_part_of_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    assert on_disk.listing_of(tmp_path) == {}


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
    assert on_disk.holds_something(on_disk.listing_of(tmp_path)) is holds


def test_links_show_the_folder_as_it_was_when_a_file_is_replaced(tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "taken"
    folder.mkdir()
    (folder / "checkpoint").write_text("old")
    seen = on_disk.listing_of(folder)
    on_disk.stage(seen, folder, target, as_copies=False)
    (folder / "new").write_text("new")
    (folder / "new").replace(folder / "checkpoint")
    assert (target / "checkpoint").read_text() == "old"
    assert on_disk.listing_of(target) == seen


def test_copies_show_the_folder_as_it_was_when_a_file_is_written_over(tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "taken"
    folder.mkdir()
    (folder / "weights.h5").write_text("old")
    seen = on_disk.listing_of(folder)
    on_disk.stage(seen, folder, target, as_copies=True)
    (folder / "weights.h5").write_text("newer")
    assert (target / "weights.h5").read_text() == "old"
    assert on_disk.listing_of(target) == seen


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
    assert on_disk.step_of(tmp_path) == step


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
    assert on_disk.missing(tmp_path) == lacks


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
    (tmp_path / "facts.json").write_text(facts)
    sizes = {"variables": 3, "facts.json": len(facts)}
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    found = damage(tmp_path, sizes)
    assert (found or "").startswith(words) if words else found is None, sentence
