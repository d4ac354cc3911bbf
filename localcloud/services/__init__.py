"""AWS services, as far as ministack and moto lack them."""
