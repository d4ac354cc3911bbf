"""Distribution of examples to the replicas of workers that train in step."""

from typing import Any

import tensorflow as tf

from trainyard.runtime.data import Examples, Share
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.cluster import Cluster

HELD: list[Any] = []
"""Iterators over distributed data, kept until the program ends: deleting one may block (data.py, `_untuned`)."""


def steps_per_epoch(
    cluster: Cluster, environment: Environment, examples: Examples, global_batch_size: int
) -> int:
    """Return the whole global batches that every worker can fill. All workers must call it."""
    replicas = cluster.strategy.num_replicas_in_sync
    if global_batch_size < replicas:
        raise SystemExit(
            f"the global batch size {global_batch_size} is smaller than the number of replicas, {replicas}: "
            "increase it"
        )
    counts = cluster.gather(examples.count)
    if not _own_files_only(environment, examples) and len(set(counts)) > 1:
        raise SystemExit(
            f"the workers have different numbers of training examples ({', '.join(map(str, counts))}): give each "
            "worker all of them, or its own files by `sharding: file` in the job"
        )
    share = _share(cluster, environment, examples, global_batch_size, cluster.place.position)
    least = min(cluster.gather(share.batches_in(examples.count)))
    if not least:
        raise SystemExit(
            f"the global batch size {global_batch_size} is too large for the training examples of every worker "
            f"({' + '.join(map(str, counts))}): reduce it"
        )
    return least


def distribute(
    cluster: Cluster,
    environment: Environment,
    examples: Examples,
    *,
    global_batch_size: int,
    seed: int,
    first_step: int,
    per_epoch: int,
) -> Any:
    """Return a distributed data set with the replicas' parts of each global batch from `first_step` on.

    The data set is declared endless. Otherwise the workers check before every step whether all have examples left,
    which may take longer than the step (tensorflow/python/distribute/input_lib.py, `_enable_get_next_as_optional`).
    """

    def of_pipeline(context: tf.distribute.InputContext) -> Any:
        share = _share(cluster, environment, examples, global_batch_size, context.input_pipeline_id)
        batches = examples.batches(share, seed=seed, first_step=first_step, per_epoch=per_epoch)
        return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

    return cluster.strategy.distribute_datasets_from_function(of_pipeline)


def _share(
    cluster: Cluster, environment: Environment, examples: Examples, global_batch_size: int, worker: int
) -> Share:
    of = cluster.strategy.num_replicas_in_sync
    here = of // cluster.workers
    share = Share.of_own_files if _own_files_only(environment, examples) else Share.of_all_data
    return share(global_batch_size, replicas=range(worker * here, (worker + 1) * here), of=of)


def _own_files_only(environment: Environment, examples: Examples) -> bool:
    return examples.folder is not None and environment.holds_own_files_only(examples.folder)
