"""CloudWatch: metrics, alarms, and the agent that publishes how busy GPUs are."""
