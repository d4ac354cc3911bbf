"""Refusals of CloudFormation that ministack lacks: exports in use, unknown properties, existing names, deletions."""

from localcloud.services.cloudformation import creations, deletions, events, exports, properties


def install() -> None:
    exports.install()
    properties.install()
    creations.install()
    deletions.install()
    events.install()
