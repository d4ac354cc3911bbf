"""EC2's state: moto's store, additional records, and views for other services."""
