"""Signals of hosts, each handled in the module of its subject."""

from datetime import datetime
from typing import assert_never

from lambdas.steps.signals import credentials, endings, holds, progress, ready, warm_hosts
from lambdas.steps.signals.context import SignalContext
from trainyard.protocol.signals import (
    Checkpointed,
    Credentials,
    DevCredentials,
    Failed,
    Finished,
    Hold,
    Progress,
    Pulling,
    Ready,
    Sent,
    Started,
    Stopped,
    Streamed,
    Wiped,
)


def handle(context: SignalContext, sent: Sent, now: datetime) -> str:
    """Handle the signal; return the result for the log."""
    match sent.signal:
        case Credentials():
            return credentials.give(context, sent)
        case DevCredentials():
            return credentials.give_to_dev_host(context.yard, sent)
        case Ready() as signal:
            return ready.ready(context, sent, signal, now)
        case Pulling() as signal:
            return ready.pulling(context, sent, signal, now)
        case Streamed() as signal:
            return ready.streamed(context, sent, signal)
        case Started() as signal:
            return progress.handle_started(context, sent, signal, now)
        case Progress() as signal:
            return progress.progress(context, sent, signal, now)
        case Checkpointed() as signal:
            return progress.handle_checkpointed(context, sent, signal, now)
        case Finished() | Stopped() | Failed() as signal:
            return endings.handle(context, sent, signal, now)
        case Hold() as signal:
            return holds.hold_host(context, sent, signal, now)
        case Wiped() as signal:
            return warm_hosts.handle_wiped(context, sent, signal, now)
        case unknown:
            assert_never(unknown)
