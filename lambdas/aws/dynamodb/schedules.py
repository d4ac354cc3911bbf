"""The rows of schedules in the ledger."""

from typing import Any

from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.write import Write
from trainyard.protocol.ledger.schedules import SCHEDULES, ScheduleRow
from trainyard.values import serialization


class Schedules(Ledger):
    def find(self, name: str) -> ScheduleRow | None:
        found = self._get(SCHEDULES, name)
        return serialization.from_json(ScheduleRow, found) if found else None

    def put(self, row: ScheduleRow) -> None:
        """Write a row. Raises AlreadyWrittenError if another call has written since it was read."""
        self.write(schedule_row(row))

    def remove(self, name: str) -> None:
        self.write(Write(SCHEDULES, name, delete=True))


def schedule_row(row: ScheduleRow) -> Write:
    values: dict[str, Any] = serialization.to_json(row)
    known = {name: value for name, value in values.items() if value is not None}
    if row.version == 1:
        return Write(SCHEDULES, row.name, known, put=True, unless="pk")
    missing = tuple(name for name, value in values.items() if value is None)
    return Write(SCHEDULES, row.name, known, without=missing, same=("version", row.version - 1))
