"""Sessions on hosts by Session Manager, without its plugin: a shell, a command, a port."""
