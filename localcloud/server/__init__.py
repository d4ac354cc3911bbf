"""The server process: request handling, the admin interface, and injected faults."""
