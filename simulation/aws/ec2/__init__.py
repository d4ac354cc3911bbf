"""EC2: instances and their states, fleets, images, capacity, permissions, and the true bill."""

from simulation.aws.ec2.model import Image, Instance, Machines, Settings, Snapshot
from simulation.aws.ec2.service import Ec2
from simulation.aws.ec2.supply.capacity import Pools
from simulation.aws.ec2.supply.quotas import ServiceQuotas

__all__ = ["Ec2", "Image", "Instance", "Machines", "Pools", "ServiceQuotas", "Settings", "Snapshot"]
