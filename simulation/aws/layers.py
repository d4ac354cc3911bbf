"""Stand-ins for parts of functions that worlds cannot contain: LiteRT, threads, clocks, and the metrics in the log.

Tasks of a pool run one after the other, so that a world has one thread and one order of requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, Self, TypeVar

from simulation.exports import StandIn
from trainyard.core.model.yard.metrics import Metric

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Pool:
    """A pool without threads, in place of ThreadPoolExecutor."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Every task has ended already."""

    def map(self, do: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
        return iter([do(each) for each in tasks])


class Layers:
    """The stand-ins of this process."""

    def __init__(self) -> None:
        self._before: list[tuple[ModuleType, str, Any]] = []
        self.on_metrics: Callable[[Mapping[str, float], Mapping[str, str]], None] = (
            lambda values, dimensions: None
        )
        """Called with the metrics of each prediction, and with their dimensions. On AWS, CloudWatch reads them from
        the log of the function."""

    def install(self) -> None:
        """Put the stand-ins into the functions. Their import reads the log level from the environment."""
        from lambdas.steps import predictions
        from lambdas.workflows.version import copy

        self._put(copy, "ThreadPoolExecutor", Pool)
        self._put(predictions, "start_interpreter", StandIn)
        clock = SimpleNamespace(monotonic=lambda: time.time(), perf_counter=lambda: time.time())
        self._put(predictions, "time", clock)
        self._put(predictions, "measure_all", self._measure)

    def _measure(self, values: Mapping[Metric, float], dimensions: Mapping[str, str]) -> None:
        self.on_metrics({metric.value: value for metric, value in values.items()}, dimensions)

    def _put(self, owner: ModuleType, name: str, value: Any) -> None:
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def remove(self) -> None:
        """Restore the functions of the process."""
        while self._before:
            setattr(*self._before.pop())
        self.forget_models()

    def forget_models(self) -> None:
        """Forget the models that predict has loaded, for a world that begins or a process that was killed."""
        from lambdas.workflows import predict

        predict.predictions_of.cache_clear()


LAYERS = Layers()
