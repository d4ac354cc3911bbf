"""In its owner's name: what is typed on a dev host sends jobs, looks at runs and stops them.

The agent asks the yard for credentials (renewal.py) and leaves them where the account that shells have reads
them, by an AWS config in its home unless there is one: whoever has put keys of theirs there keeps using those.
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
"""Nobody waits for them as a run does."""
NEEDED = (Tag.RUN, Tag.BUCKET, Tag.BUS, Tag.ROLE, Tag.SUBMITTER)

logger = logging.getLogger(__name__)


def begin(paths: Paths, identity: Identity) -> None:
    """From now on, in a thread of its own; without the tags of a host that the yard has launched nothing."""
    if lacking := [name for name in NEEDED if name not in identity.tags]:
        logger.warning("nothing is done here in the owner's name: the host has no tag %s", lacking[0])
        return
    try:
        entry = shell_account.find()
        account = Account(entry.pw_uid, entry.pw_gid)
        configure(paths, identity, entry, account)
    except (HostTrouble, OSError) as trouble:
        logger.warning("nothing is done here in the owner's name: %s", trouble)
        return
    kept = _renewal(paths, identity, account)
    Repeat("credentials of the owner", lambda _: kept.turn(), every=LOOK_SECONDS).start()


def _renewal(paths: Paths, identity: Identity, account: Account) -> Renewal:
    session, tags, host = credentials.of_the_host(identity.region), identity.tags, identity.instance
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
    """Where boto3, the aws command and `trainyard` of that account find the credentials, the region and the yard.
    What is there stays."""
    home = Path(entry.pw_dir)
    process = f"credential_process = /bin/cat {paths.credentials}"
    written = {
        home / ".aws/config": f"[default]\nregion = {identity.region}\n{process}\n",
        home / ".config/trainyard/config.toml": f'yard = "{identity.tags.get(Tag.YARD, "trainyard")}"\n',
    }
    with account.acting():
        for file, text in written.items():
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
