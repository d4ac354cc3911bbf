"""CloudFormation where ministack forgives what AWS refuses: exports in use, properties nobody applies, deletions."""

from localcloud.services.cloudformation import deletions, events, exports, properties


def install() -> None:
    """All of it, on ministack's CloudFormation; and events of what an update changes alone."""
    exports.install()
    properties.install()
    deletions.install()
    events.install()
