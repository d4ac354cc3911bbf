"""numpy with a bar of tqdm, a log that is appended to, and a state that replaces the one before."""

import json
import os
import time

import numpy as np
from tqdm import tqdm

os.makedirs("results", exist_ok=True)
w, start = np.zeros(4), 0
if os.path.exists("results/state.npz"):
    state = np.load("results/state.npz")
    w, start = state["w"], int(state["step"])
    print("resuming at", start, flush=True)

log = open("results/metrics.jsonl", "a")
progress = tqdm(range(start, 500), initial=start, total=500, desc="Training")
for step in progress:
    w += 0.05 * (1.0 - w)
    loss = float(((1.0 - w) ** 2).mean())
    progress.set_postfix(loss=f"{loss:.4f}")
    log.write(json.dumps({"step": step, "loss": loss}) + "\n")
    log.flush()
    if step % 10 == 9:
        with open("results/state.npz.tmp", "wb") as file:
            np.savez(file, w=w, step=step + 1)
        os.replace("results/state.npz.tmp", "results/state.npz")
    time.sleep(0.4)
print("lines of the log:", len(open("results/metrics.jsonl").readlines()))
