"""CloudFormation where ministack forgives what AWS refuses: exports in use, properties that nothing applies, names that
exist, deletions."""

from localcloud.services.cloudformation import creations, deletions, events, exports, properties


def install() -> None:
    """All of it, on ministack's CloudFormation; and events of what an update changes alone."""
    exports.install()
    properties.install()
    creations.install()
    deletions.install()
    events.install()
