"""What the state machines, rules and events hand to each function, and what it answers: a module a workflow.

A class with a `kind` is one answer of a union. tests/unit/core/test_edges.py holds each state machine against them."""
