"""Trainyard: what training programs import, and the client of a deployed yard.

from trainyard import Yard

run = Yard.find().submit("job.yaml")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainyard.client import Run as Run
    from trainyard.client import Yard as Yard

__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    """Import Yard and Run, with boto3, at their first use. Hosts and functions do not use them."""
    if name in ("Run", "Yard"):
        from trainyard import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
