"""The metrics of hosts in CloudWatch: agents publish the GPUs', EC2 the processors'."""

NAMESPACE = "Trainyard"
GPU_UTILIZATION = "nvidia_smi_utilization_gpu"
GPU_MEMORY = "nvidia_smi_memory_used"
GPU_SECONDS = 60
"""The period of the agents."""
PROCESSOR_NAMESPACE = "AWS/EC2"
PROCESSOR_UTILIZATION = "CPUUtilization"
PROCESSOR_SECONDS = 300
"""The period of basic monitoring. EC2 publishes it without an agent and without a charge."""
