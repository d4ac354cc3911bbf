"""What another host's run has left on a disk that was copied from an image."""

from training.host.account import Account, remove_tree
from training.host.places import Places


def clear_what_another_left(places: Places, account: Account) -> None:
    """Remove the work and the logs of the host that the image was made from, and what its program left in /var/tmp:
    the account of the next program could read it. What this host's own interrupted fetch left stays."""
    for leftover in (places.work, places.log, places.orders):
        if leftover.exists():
            remove_tree(leftover)
    account.remove_traces(places.root)
    places.home.mkdir(parents=True)
    account.give(places.home)
    with account.acting():
        places.checkpoints.mkdir()
