"""CloudFormation where ministack's forgives what AWS refuses: exports in use, and properties that nothing applies."""

from localcloud.services.cloudformation import exports, properties


def install() -> None:
    """Both, on ministack's CloudFormation."""
    exports.install()
    properties.install()
