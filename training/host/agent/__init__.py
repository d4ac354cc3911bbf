"""The agent's life: boot, take part in attempts, leave."""
