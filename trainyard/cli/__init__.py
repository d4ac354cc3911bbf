"""The command `trainyard`: each command is a few AWS calls with the person's own credentials, by trainyard.client."""
