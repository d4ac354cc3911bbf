"""A write of a row, and its request to DynamoDB."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from lambdas.aws.dynamodb.serialization import key_of, pack, pack_row
from trainyard.core.model import states
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Write:
    """One row to write: an update, unless `put` or `delete` is set."""

    pk: str
    sk: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """Attributes to set. None leaves an attribute as it is."""
    without: tuple[str, ...] = ()
    """Attributes to remove."""
    put: bool = False
    """Replace the whole row."""
    unless: str | None = None
    """An attribute that must be missing."""
    only: str | None = None
    """An attribute that must exist."""
    same: tuple[str, int | str] | None = None
    """An attribute that must have this value."""
    other: tuple[str, str] | None = None
    """An attribute that must not have this value."""
    rising: tuple[tuple[str, Any], ...] = ()
    """Paths of attributes, most significant first, with their new values. Together the values must be above the values
    in the row. A missing attribute is below every value. Therefore a late signal changes nothing."""
    stage: bool = False
    """The values name a state of a run, perhaps with an attempt. If the row has a later attempt, or a later state
    (states.ORDER) of this attempt, both stay and only the other values are written."""
    add: Mapping[str, float] = field(default_factory=dict)
    """Numbers to add to the attributes, which count as 0 if missing."""
    write_once: frozenset[str] = frozenset()
    """Attributes that keep their first value."""
    delete: bool = False
    """Delete the row. The conditions `only` and `unless` apply."""

    @property
    def without_stage(self) -> "Write":
        """Return the write without its state and attempt."""
        return (
            replace(self, stage=False, write_once=self.write_once | {"state", "attempt"})
            if self.stage
            else self
        )


def request_of(table: str, write: Write) -> dict[str, Any]:
    """Return the write as an item of TransactWriteItems."""
    key = key_of(write.pk, write.sk)
    if write.delete:
        only: dict[str, Any] = {}
        if write.only or write.unless:
            word = "attribute_exists" if write.only else "attribute_not_exists"
            only["ConditionExpression"] = f"{word}(#name)"
            only["ExpressionAttributeNames"] = {"#name": write.only or write.unless}
        return {"Delete": {"TableName": table, "Key": key, **only}}
    if write.put:
        first: dict[str, Any] = {}
        if write.unless:
            first["ConditionExpression"] = "attribute_not_exists(#unless)"
            first["ExpressionAttributeNames"] = {"#unless": write.unless}
        return {"Put": {"TableName": table, "Item": key | pack_row(write.values), **first}}
    values = pack_row({name: value for name, value in write.values.items() if value is not None})
    names = {f"#v{n}": name for n, name in enumerate(values)}
    sets = [
        f"{alias} = if_not_exists({alias}, :v{alias[2:]})"
        if name in write.write_once
        else f"{alias} = :v{alias[2:]}"
        for alias, name in names.items()
    ]
    words = {f":v{alias[2:]}": values[name] for alias, name in names.items()}
    for n, (name, more) in enumerate(write.add.items()):
        sets.append(f"#a{n} = if_not_exists(#a{n}, :zero) + :a{n}")
        names[f"#a{n}"] = name
        words |= {f":a{n}": pack(more), ":zero": pack(0)}
    update: dict[str, Any] = {
        "TableName": table,
        "Key": key,
        "UpdateExpression": "SET " + ", ".join(sets),
        "ExpressionAttributeValues": words,
    }
    if write.without:
        gone = {f"#w{n}": name for n, name in enumerate(write.without)}
        update["UpdateExpression"] += " REMOVE " + ", ".join(gone)
        names |= gone
    conditions = []
    if write.unless:
        names["#unless"] = write.unless
        conditions.append("attribute_not_exists(#unless)")
    if write.only:
        names["#only"] = write.only
        conditions.append("attribute_exists(#only)")
    if write.same:
        names["#same"], value = write.same
        conditions.append("#same = :same")
        words[":same"] = pack(value)
    if write.other:
        names["#other"], task = write.other
        conditions.append("(attribute_not_exists(#other) OR #other <> :other)")
        words[":other"] = pack(task)
    if write.rising:
        names |= {f"#{name}": name for path, _ in write.rising for name in path.split(".")}
        words |= {f":r{n}": pack(value) for n, (_, value) in enumerate(write.rising)}
        conditions.append(f"({_is_above([path for path, _ in write.rising])})")
    if write.stage:
        up_to = states.ORDER[: states.ORDER.index(write.values["state"]) + 1]
        words |= {f":s{n}": pack(state) for n, state in enumerate(up_to)}
        names["#state"] = "state"
        is_timely = f"#state IN ({', '.join(f':s{n}' for n in range(len(up_to)))})"
        if "attempt" in write.values:
            names["#attempt"] = "attempt"
            words[":attempt"] = pack(write.values["attempt"])
            is_timely = f"#attempt < :attempt OR #attempt = :attempt AND {is_timely}"
        conditions.append(f"(attribute_not_exists(#state) OR {is_timely})")
    if conditions:
        update["ConditionExpression"] = " AND ".join(conditions)
    return {"Update": update | {"ExpressionAttributeNames": names}}


def _is_above(paths: Sequence[str]) -> str:
    """Return the condition that the values `:r0`, `:r1`, ... are above those at the paths, compared in this order."""
    aliases = [".".join(f"#{name}" for name in path.split(".")) for path in paths]
    above = [
        " AND ".join([*(f"{each} = :r{n}" for n, each in enumerate(aliases[:last])), f"{path} < :r{last}"])
        for last, path in enumerate(aliases)
    ]
    return " OR ".join([f"attribute_not_exists({aliases[0]})", *above])
