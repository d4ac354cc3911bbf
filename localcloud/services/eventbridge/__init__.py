"""EventBridge: events of services, rules, and the targets and roles of rules."""
