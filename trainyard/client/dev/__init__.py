"""Dev hosts: found by their names, brought up and taken down."""
