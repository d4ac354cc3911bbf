"""The supply of EC2: types and prices, capacity, quotas."""
