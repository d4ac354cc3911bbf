"""Use a secret as a client of a service does, without printing it."""

import hashlib
import os
import time

print("sum", hashlib.sha256(os.environ["WANDB_API_KEY"].encode()).hexdigest(), flush=True)
time.sleep(5)
