"""The pure decisions of the runtime: the role of a process, its share of a batch, and fitting checkpoints."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from trainyard.protocol.cluster import Strategy
from trainyard.runtime.data import Arrays, Examples, Records, Share
from trainyard.runtime.environment import Environment
from trainyard.runtime.loops.feeding import distribute
from trainyard.runtime.plan import Plan, Resumed, resume
from trainyard.runtime.processes.cluster import Cluster
from trainyard.runtime.processes.place import Place, strategy_for

PLAN = Plan(epochs=3, global_batch_size=64, seed=1, checkpoint_every=10, checkpoint_seconds=60)


def place(role: str, index: int, **members: int) -> Place:
    cluster = {name: [f"{name}{one}:1" for one in range(count)] for name, count in members.items()}
    return Place.from_tf_config(json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}))


@pytest.mark.parametrize(
    ("said", "where", "gpus", "strategy"),
    [
        (None, Place.from_tf_config(None), 0, "single"),
        (None, Place.from_tf_config(None), 1, "single"),
        (None, Place.from_tf_config(None), 4, "mirrored"),
        (None, place("worker", 0, worker=2), 0, "multi_worker"),
        (None, place("chief", 0, chief=1, worker=2, ps=1), 0, "parameter_server"),
        ("single", Place.from_tf_config(None), 4, "single"),
        ("mirrored", Place.from_tf_config(None), 0, "mirrored"),
    ],
)
def test_the_strategy_is_what_was_said_else_what_tf_config_and_gpus_suggest(
    said: str | None, where: Place, gpus: int, strategy: str
) -> None:
    assert strategy_for(said, where, gpus) == strategy


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        SystemExit, match="'tpu'; allowed are single, mirrored, multi_worker, parameter_server"
    ):
        strategy_for("tpu", Place.from_tf_config(None), 0)


@pytest.mark.parametrize(
    ("where", "is_chief", "position"),
    [
        (Place.from_tf_config(None), True, 0),
        (place("worker", 0, worker=2), True, 0),
        (place("worker", 1, worker=2), False, 1),
        (place("chief", 0, chief=1, worker=2), True, 0),
        (place("worker", 0, chief=1, worker=2), False, 1),
        (place("evaluator", 0, chief=1, worker=2, ps=1), False, 0),
        (place("ps", 0, chief=1, worker=2, ps=1), False, 0),
    ],
)
def test_the_chief_is_who_has_the_role_else_worker_0(where: Place, is_chief: bool, position: int) -> None:
    assert (where.is_chief, where.position) == (is_chief, position)


def test_others_are_all_that_open_a_door_by_name() -> None:
    assert place("chief", 0, chief=1, worker=1, ps=1, evaluator=1).others() == {
        "ps0:1": "ps 0 at ps0:1",
        "worker0:1": "worker 0 at worker0:1",
    }


@pytest.mark.parametrize(
    ("replicas", "of", "all_data", "own_files"),
    [
        (range(1), 1, Share(8, ((0, 8),)), Share(8, ((0, 8),))),
        (range(1), 3, Share(8, ((0, 3),)), Share(3, ((0, 3),))),
        (range(2, 3), 3, Share(8, ((6, 8),)), Share(2, ((0, 2),))),
        (range(2, 4), 4, Share(8, ((4, 6), (6, 8))), Share(4, ((0, 2), (2, 4)))),
    ],
)
def test_a_share_is_part_of_each_batch_or_a_batch_of_ones_own(
    replicas: range, of: int, all_data: Share, own_files: Share
) -> None:
    assert Share.of_all_data(8, replicas=replicas, of=of) == all_data
    assert Share.of_own_files(8, replicas=replicas, of=of) == own_files


def test_a_checkpoint_of_this_plan_says_where_to_go_on() -> None:
    assert resume(PLAN.metadata_at(25, 10), PLAN, 10) == Resumed(25, 64, epoch=3, batch=5, verified=True)


@pytest.mark.parametrize(
    ("change", "now", "says"),
    [
        ({"seed": 2}, 10, "has seed 2, but the program has 1"),
        ({"global_batch_size": 32}, 10, "has global_batch_size 32, but the program has 64"),
        ({}, 11, "has steps_per_epoch 10, but the program has 11"),
        ({"batch": 6}, 10, "has batch 6, but the program has 5"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(change: dict[str, int], now: int, says: str) -> None:
    with pytest.raises(SystemExit, match=says):
        resume(PLAN.metadata_at(25, 10) | change, PLAN, now)


def test_the_environment_tells_folders_from_how_they_are_shared_out() -> None:
    told = Environment.from_os(
        {
            "TRAINYARD_DATA_TRAIN": "/data/train",
            "TRAINYARD_DATA_TRAIN_SHARDING": "file",
            "TRAINYARD_DATA_TEST": "/data/test",
            "TRAINYARD_DATA_TEST_SHARDING": "none",
        }
    )
    assert dict(told.data) == {"train": Path("/data/train"), "test": Path("/data/test")}
    assert told.holds_own_files_only(Path("/data/train/part"))
    assert not told.holds_own_files_only(Path("/data/test"))


def test_a_data_entry_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(SystemExit, match=r"needs data\.train: .*TRAINYARD_DATA_TRAIN"):
        Environment.from_os({}).data_folder("train")


def test_no_thread_tunes_a_pipeline_that_has_nothing_to_tune(tmp_path: Path) -> None:
    """A tuning thread may miss the end of its iterator. This delays the program's end, by a minute on a busy host."""
    with tf.io.TFRecordWriter(str(tmp_path / "one.tfrecord")) as file:
        file.write(b"record")
    share = Share.of_all_data(1, replicas=range(1), of=1)
    for examples in (Records.under(tmp_path, lambda batch: batch), Arrays(tf.zeros(4), tf.zeros(4))):
        batches = examples.batches(share, seed=1, first_step=0, per_epoch=1).take(1)
        for dataset in (batches, examples.once(1)):
            assert dataset.options().autotune.enabled is False
            assert len(list(dataset)) > 0


def test_workers_in_step_know_that_examples_never_end() -> None:
    """Otherwise TensorFlow makes workers check before every step which of them have examples left."""
    cluster = Cluster(Place.from_tf_config(None), Strategy.SINGLE, tf.distribute.get_strategy())
    batches = distribute(
        cluster,
        Environment.from_os({}),
        Arrays(tf.zeros(4), tf.zeros(4)),
        global_batch_size=1,
        seed=1,
        first_step=0,
        per_epoch=4,
    )
    assert batches.cardinality() == tf.data.INFINITE_CARDINALITY


def test_autograph_rewrites_what_users_wrote_and_no_order_of_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AutoGraph writes a file for each function that it rewrites, which delays every start."""
    written = tmp_path / "written"
    written.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(written))
    with tf.io.TFRecordWriter(str(tmp_path / "one.tfrecord")) as file:
        file.write(b"record")

    def parse(batch: Any) -> Any:
        return batch if tf.size(batch) > 0 else tf.zeros_like(batch)

    def once(examples: Examples) -> int:
        share = Share.of_all_data(1, replicas=range(1), of=1)
        return len(list(examples.batches(share, seed=1, first_step=0, per_epoch=1).take(1)))

    assert once(Arrays(tf.zeros(4), tf.zeros(4))) == 1
    assert list(written.glob("__autograph_generated_file*.py")) == []
    assert once(Records.under(tmp_path, parse)) == 1
    assert any("tf__parse(" in each.read_text() for each in written.glob("__autograph_generated_file*.py"))
