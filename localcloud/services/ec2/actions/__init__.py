"""Actions of EC2's API that moto lacks or implements differently from AWS."""
