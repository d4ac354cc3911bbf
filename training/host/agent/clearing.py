"""Remove what another host's run has left on a disk that was copied from an image."""

from training.host.account import Account, remove_tree
from training.host.mounts.mounting import unmount_all
from training.host.paths import Paths


def clear_leftovers(paths: Paths, account: Account) -> None:
    """Remove the work and the logs of the image's host, and its program's files in /var/tmp, which the account of the
    next program could read. Files of this host's own interrupted fetch stay."""
    unmount_all(paths)
    for leftover in (paths.work, paths.log, paths.orders):
        if leftover.exists():
            remove_tree(leftover)
    account.remove_traces(paths.root)
    paths.home.mkdir(parents=True)
    account.give(paths.home)
    with account.act():
        paths.checkpoints.mkdir()
