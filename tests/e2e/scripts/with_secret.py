"""Uses a secret as a client of some service would, and keeps it to itself."""

import hashlib
import os
import time

print("sum", hashlib.sha256(os.environ["WANDB_API_KEY"].encode()).hexdigest(), flush=True)
time.sleep(5)
