"""Output of commands in terminals and pipes: live screens, plain lines, and reports."""
