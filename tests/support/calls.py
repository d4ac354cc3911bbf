"""Read the counts of calls from a local cloud."""

from __future__ import annotations

import json
import urllib.request

from localcloud.base.root_key import RootKey
from trainyard.client import Yard

NOT_AWS_API = ("lambda:InvokeFunction",)


def calls(yard: Yard) -> dict[str, dict[str, int]]:
    """Return the counts since the start: {caller: {action: times}}."""
    held = yard.session.boto.get_credentials()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.addheaders = [("Authorization", RootKey(held.access_key, held.secret_key).as_basic())]
    with opener.open(f"{yard.session.endpoint}/_localcloud/calls", timeout=30) as answer:
        totals: dict[str, dict[str, int]] = json.load(answer)
    return totals


def less(after: dict[str, dict[str, int]], before: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the differences of two counts."""
    left = {
        caller: {action: times - before.get(caller, {}).get(action, 0) for action, times in counts.items()}
        for caller, counts in after.items()
    }
    return {
        caller: {action: times for action, times in counts.items() if times and action not in NOT_AWS_API}
        for caller, counts in left.items()
    }
