"""A folder for each workflow: its definition, and the construct that owns all of it. Beside them what they share."""
