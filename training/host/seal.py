"""Sealing: before an image is made, remove what belongs to this host and its run, so that a clone starts clean."""

import shutil
from pathlib import Path

from training.host.orders import write_whole
from training.host.places import Places


def seal(places: Places, instance: str) -> list[Path]:
    """Remove work and logs; leave the mark that keeps this very instance quiet. What was removed."""
    removed = []
    for folder in (places.work, places.log, places.orders):
        if folder.exists():
            shutil.rmtree(folder)
            removed.append(folder)
    write_whole(places.sealed, instance)
    return removed
