"""What EC2 has to offer: types and prices, room in the pools, quotas."""
