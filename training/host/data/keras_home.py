"""`~/.keras` for programs that call `load_data()`: the job's data entry `keras`."""

from training.host.places import Places

ENTRY = "keras"
DATASETS = "datasets"


def link(places: Places) -> None:
    """Let Keras find what it would download. The entry is `~/.keras` itself, or its `datasets` where it has no such
    folder. What is there already stays."""
    entry, home = places.data / ENTRY, places.home / ".keras"
    if not entry.is_dir() or home.exists() or home.is_symlink():
        return
    if (entry / DATASETS).is_dir():
        home.symlink_to(entry)
    else:
        home.mkdir()
        (home / DATASETS).symlink_to(entry)
