"""Dev hosts: find them by name, bring them up and take them down."""
