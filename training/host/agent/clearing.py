"""What another host's run has left on a disk that was copied from an image."""

from training.host.account import Account, remove_tree
from training.host.paths import Paths


def clear_what_another_left(paths: Paths, account: Account) -> None:
    """Remove the work and the logs of the host that the image was made from, and what its program left in /var/tmp:
    the account of the next program could read it. What this host's own interrupted fetch left stays."""
    for leftover in (paths.work, paths.log, paths.orders):
        if leftover.exists():
            remove_tree(leftover)
    account.remove_traces(paths.root)
    paths.home.mkdir(parents=True)
    account.give(paths.home)
    with account.acting():
        paths.checkpoints.mkdir()
