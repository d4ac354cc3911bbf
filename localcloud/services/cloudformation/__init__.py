"""CloudFormation where ministack's forgives what AWS refuses: exports in use, and properties that nothing applies."""

from localcloud.services.cloudformation import events, exports, properties


def install() -> None:
    """Both, on ministack's CloudFormation; and events of what an update changes alone."""
    exports.install()
    properties.install()
    events.install()
