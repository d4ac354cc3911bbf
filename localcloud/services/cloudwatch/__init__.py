"""CloudWatch: metrics, alarms, and the agent's GPU metrics."""
