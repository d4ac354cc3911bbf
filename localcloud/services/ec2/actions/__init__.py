"""The actions of EC2's API that moto does not have, or has otherwise than AWS."""
