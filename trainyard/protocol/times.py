"""Time limits that the yard and its hosts share."""

from datetime import timedelta

LEASE_MARGIN = timedelta(minutes=15)
"""The time after the run's deadline after which a host powers itself off. It leaves time for a snapshot, the release
and retries. Patrol ends the host after the same time again."""
RESTARTED_LEASE = timedelta(hours=12)
"""The longest that a host runs if a user starts it again after its lease has ended: a working day. Patrol stops it
earlier if it is idle."""
PROGRAM_SILENT = timedelta(minutes=12)
"""If the program shows no work for this time, the chief's agent reports that it hangs."""
