"""`~/.keras` for programs that call `load_data()`: the job's data entry `keras`."""

from training.host.paths import Paths

ENTRY = "keras"
DATASETS = "datasets"


def link(paths: Paths) -> None:
    """Let Keras find what it would download. The entry is `~/.keras` itself, or its `datasets` where it has no such
    folder. What is there already stays."""
    entry, home = paths.data / ENTRY, paths.home / ".keras"
    if not entry.is_dir() or home.exists() or home.is_symlink():
        return
    if (entry / DATASETS).is_dir():
        home.symlink_to(entry)
    else:
        home.mkdir()
        (home / DATASETS).symlink_to(entry)
