"""What EC2 remembers: moto's store, our records beside it, and what others may see of both."""
