"""EC2: instances and their states, fleets, images, capacity, permissions, and the true bill."""

from simulation.aws.ec2.model import Image, Instance, Machines, Settings, Snapshot
from simulation.aws.ec2.offered.capacity import Pools
from simulation.aws.ec2.offered.quotas import ServiceQuotas
from simulation.aws.ec2.service import Ec2

__all__ = ["Ec2", "Image", "Instance", "Machines", "Pools", "ServiceQuotas", "Settings", "Snapshot"]
