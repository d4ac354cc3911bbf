"""AWS's services, each as far as ministack and moto do not have it."""
