"""The command line `trainyard`. Commands call trainyard.client with the user's own credentials."""
