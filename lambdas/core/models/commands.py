"""The command that makes a request about a model again."""

from typing import assert_never

from trainyard.command_line import command_line
from trainyard.protocol.ledger.models import DEFAULT
from trainyard.protocol.requests import Act, ModelRequest


def repeat(request: ModelRequest) -> str:
    """Return the command line that sends this request again."""
    model, version = request.model, request.version
    alias = ("--alias", request.alias) if request.alias not in ("", DEFAULT) else ()
    shadow = ("--shadow",) if request.shadow else ()
    match request.act:
        case Act.CREATE:
            return command_line("models", "create", model, *(("--approval", "1") if request.approval else ()))
        case Act.VERSION:
            return command_line("versions", "create", version, "--model", model, "--origin", request.origin)
        case Act.MOVE:
            return command_line("versions", "set-default", version, "--model", model, *alias)
        case Act.ROLLBACK:
            return command_line("models", "rollback", model, *alias)
        case Act.RETIRE:
            return command_line("models", "retire", model, version)
        case Act.CANARY:
            share = ("--percent", str(request.percent), "--minutes", str(request.minutes))
            return command_line("models", "canary", model, "--to", version, *share, *shadow)
        case Act.END_CANARY:
            return command_line("models", "canary", model, "--stop", *shadow)
        case Act.APPROVE:
            return command_line("models", "approve", model, *alias)
        case Act.SERVE:
            return command_line("serve", model, *(("--version", version) if version else ()))
    assert_never(request.act)
