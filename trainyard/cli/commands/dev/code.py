"""Let an editor of this computer work on a dev host."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.commands.dev.ssh import write_ssh_files
from trainyard.cli.dev_hosts import Name
from trainyard.cli.options import Options


@command("trainyard dev code mine")
def code(options: Options, name: Name) -> None:
    """Let an editor of this computer work on a dev host.

    Adds one block to ~/.ssh/config for VS Code and other editors that use ssh. The rest of the file stays.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import ssh as by_ssh

    files = write_ssh_files(options, name)
    is_new = by_ssh.include(files)
    if options.is_json:
        terminal.answer(
            {"host": files.alias, "config": str(files.config), "included": str(files.default_config)}
        )
        return
    terminal.console.print(files.alias, markup=False)
    if not options.quiet:
        terminal.note(f"{files.default_config} {'now reads' if is_new else 'reads'} {files.config}")
        terminal.hint(f"Next: code --remote ssh-remote+{files.alias}")
        terminal.hint(f"or, in the editor: Remote-SSH: Connect to Host ..., {files.alias}")
