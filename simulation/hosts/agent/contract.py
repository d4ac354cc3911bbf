"""Every signal and stage of a host at which a fault can be injected, with the real agent's function behind it.

The conformance test compares them with the agent.
"""

from collections.abc import Mapping

SIGNALS: Mapping[str, str] = {
    "credentials": "training.host.renewal.Renewal.turn",
    "ready": "training.host.agent.agent.Agent._await_start",
    "pulling": "training.host.agent.container.Images.tell",
    "streamed": "training.host.agent.mounts.Mounts._send_gets",
    "started": "training.host.agent.attempt.Attempt.start",
    "progress": "training.host.agent.monitor.Monitor.report",
    "checkpointed": "training.host.agent.attempt.Attempt._record_checkpoint",
    "finished": "training.host.agent.conclusion.Conclusion.conclude",
    "stopped": "training.host.agent.conclusion.Conclusion.conclude",
    "failed": "training.host.agent.conclusion.Conclusion.conclude",
    "hold": "training.host.agent.deadlines.hold._request_hold",
    "wiped": "training.host.pool.waiting.wiped_event",
}
"""Signals on the event bus. training.host.reporting.outbox.Outbox sends all except `hold` and `wiped`."""

OTHER_SENDERS: Mapping[str, tuple[str, ...]] = {
    "progress": ("training.host.agent.monitor.Monitor.heartbeat",),
    "stopped": ("training.host.agent.agent.Agent._await_start",),
    "failed": (
        "training.host.agent.agent.Agent._report_trouble",
        "training.host.agent.agent.Agent._report_lease_over",
    ),
}
"""Further functions that send the same signal."""

STAGES: Mapping[str, str] = {
    "boot": "",
    "register": "",
    "fetch": "training.host.agent.agent.Agent._fetch",
    "join": "training.host.agent.membership.join",
    "prepare": "training.host.agent.preparation.Preparation.prepare",
    "upload": "training.host.checkpoints.in_bucket.upload_files",
    "catalogue": "training.host.checkpoints.in_bucket.make_newest",
    "results": "training.host.agent.conclusion.Conclusion._upload_results",
    "wipe": "training.host.pool.wipe.wipe",
    "install": "training.baking.install.install",
    "test": "training.baking.tests.run_all",
    "generalize": "training.host.image.generalize.generalize",
    "pause": "training.host.image.pause.pause",
    "resume": "training.host.image.pause.resume",
    "start": "training.host.orders.give",
    "stop": "training.host.orders.give",
}
"""Stages without a signal. The first two belong to the machine and the SSM agent."""

STORED_IN_BUCKET: Mapping[str, str] = {
    "signals": "training.host.reporting.outbox.Outbox._copy_to_bucket",
    "final-reports": "training.host.reporting.outbox.Outbox._write_final_report",
    "drain-confirmations": "training.host.agent.standing_order.StandingOrder._look",
    "working": "training.host.agent.life.Peers._write_report",
}
