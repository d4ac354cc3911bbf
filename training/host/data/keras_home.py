"""Provide the job's data entry `keras` as `~/.keras`, for programs that call `load_data()`."""

from training.host.paths import Paths

ENTRY = "keras"
DATASETS = "datasets"


def link(paths: Paths) -> None:
    """Link the entry to the place where Keras looks before it downloads: `~/.keras`, or `~/.keras/datasets` if the
    entry has no folder `datasets`. An existing `~/.keras` stays."""
    entry, home = paths.data / ENTRY, paths.home / ".keras"
    if not entry.is_dir() or home.exists() or home.is_symlink():
        return
    if (entry / DATASETS).is_dir():
        home.symlink_to(entry)
    else:
        home.mkdir()
        (home / DATASETS).symlink_to(entry)
