"""Times that the yard and its hosts both keep to."""

from datetime import timedelta

LEASE_MARGIN = timedelta(minutes=15)
"""What a host gets beyond the run's deadline before it powers itself off: snapshot, release, retries. Patrol ends
it after as long a time again."""
RESTARTED_LEASE = timedelta(hours=12)
"""The longest that a host runs which a user starts again after its lease had ended: a day's work. Patrol stops it
earlier, once it is idle."""
PROGRAM_SILENT = timedelta(minutes=12)
"""After this time without work the chief's agent reports that its program hangs."""
