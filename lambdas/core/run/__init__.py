"""A run and its end: records, deadlines, recovery, summary."""

from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.launch_request import LaunchRequestRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.values.partial import Partial

RunUpdate = Partial[RunRow]
AttemptUpdate = Partial[AttemptRow]
HostUpdate = Partial[HostRow]
LaunchRequestUpdate = Partial[LaunchRequestRow]
"""Parts of rows, as updates write them."""
