"""Credentials of a dev host's owner: commands that are typed on the host submit, show, and stop runs in that name.

The agent requests credentials from the yard (renewal.py). The account of shells reads them through an AWS config in its
home, unless that file exists: a user who has put own keys there keeps using those.
"""

import logging
import pwd
from datetime import UTC, datetime
from pathlib import Path

from training.host import credentials
from training.host.account import Account
from training.host.bucket import Bucket
from training.host.credentials import CALLS
from training.host.dev import shell_account
from training.host.errors import HostTrouble
from training.host.metadata import Identity
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.renewal import Renewal
from training.host.reporting import outbox
from training.host.reporting.outbox import Sender
from trainyard.protocol.signals import DevCredentials, Sent, Signal
from trainyard.protocol.tags import Tag

LOOK_SECONDS, AGAIN_SECONDS = 2.0, 60.0
"""Longer intervals than a run's, because no run waits for these credentials."""
NEEDED = (Tag.RUN, Tag.BUCKET, Tag.BUS, Tag.ROLE, Tag.SUBMITTER)

logger = logging.getLogger(__name__)


def begin(paths: Paths, identity: Identity) -> None:
    """Start the renewal in its own thread. Do nothing on a host without the tags of the yard."""
    if lacking := [name for name in NEEDED if name not in identity.tags]:
        logger.warning("no credentials of the owner: the host has no tag %s", lacking[0])
        return
    try:
        entry = shell_account.find()
        account = Account(entry.pw_uid, entry.pw_gid)
        configure(paths, identity, entry, account)
    except (HostTrouble, OSError) as trouble:
        logger.warning("no credentials of the owner: %s", trouble)
        return
    owners = _renewal(paths, identity, account)
    Repeat("credentials of the owner", lambda _: owners.turn(), every=LOOK_SECONDS).start()


def _renewal(paths: Paths, identity: Identity, account: Account) -> Renewal:
    session, tags, host = credentials.host_session(identity.region), identity.tags, identity.instance
    events, sender, run = session.client("events", config=CALLS), Sender.of(host, tags), tags[Tag.RUN]

    def send(signal: Signal) -> None:
        sent = Sent(run=run, attempt=1, instance=host, at=datetime.now(UTC), signal=signal)
        outbox.put(events, outbox.entry(sent, sender))

    return Renewal(
        Bucket(session.client("s3", config=CALLS), tags[Tag.BUCKET]),
        sender,
        paths,
        account=account,
        send=send,
        run=run,
        request=DevCredentials(),
        again=AGAIN_SECONDS,
    )


def configure(paths: Paths, identity: Identity, entry: pwd.struct_passwd, account: Account) -> None:
    """Write the files that tell boto3, the aws command, and `trainyard` the credentials, region, and yard. Existing
    files stay."""
    home = Path(entry.pw_dir)
    process = f"credential_process = /bin/cat {paths.credentials}"
    written = {
        home / ".aws/config": f"[default]\nregion = {identity.region}\n{process}\n",
        home / ".config/trainyard/config.toml": f'yard = "{identity.tags.get(Tag.YARD, "trainyard")}"\n',
    }
    with account.act():
        for file, text in written.items():
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
