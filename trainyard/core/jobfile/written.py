"""An admitted job as a user may write it."""

from collections.abc import Mapping
from typing import Any

from trainyard.core.model.batch import PROGRAM
from trainyard.core.model.program import Data
from trainyard.protocol.cluster import Strategy
from trainyard.protocol.containers import Container
from trainyard.values import serialization
from trainyard.values.fields import keys

NEVER_EMPTY = (("program", "command"), ("hardware", "zones"))
"""Lists that are never empty in a job file, but may be empty in an admitted job."""
SECOND_GANG_KEYS = (("hardware", "cpu_instance_types"), ("hardware", "cpu_roles"))
"""Lists of the second gang, which may be empty only with parameter_server."""


def as_file(admitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return job.json as a user may write it: without empty lists that a file cannot have, and without `chief` unless
    the job has parameter servers. A container image is named by the digest that the run used, and a
    file system only by its source."""
    written = _without_none(admitted)
    serves = Strategy(written["cluster"]["strategy"]).is_asynchronous
    for section, key in NEVER_EMPTY if serves else (*NEVER_EMPTY, *SECOND_GANG_KEYS):
        if not written[section].get(key):
            written[section].pop(key, None)
    if not serves:
        written["cluster"].pop("chief", None)
    if container := admitted["program"].get("container"):
        pinned = serialization.to_json(serialization.from_json(Container, container).pinned)
        written["program"]["container"] = {
            name: pinned[name] for name in keys(Container) if pinned[name] != ""
        }
    for name, entry in admitted["data"].items():
        written["data"][name] = {each: entry[each] for each in keys(Data) if entry.get(each) is not None}
    if written.get("predict"):
        written |= {"program": PROGRAM, "data": {}}
    return written


def _without_none(admitted: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in admitted.items()
        if value is not None
    }
    return written
