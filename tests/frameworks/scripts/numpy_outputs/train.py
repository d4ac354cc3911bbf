"""A program with only numpy, with its state and its results in ./outputs."""

import os
import time

import numpy as np

os.makedirs("./outputs", exist_ok=True)
target, start, w = np.array([1.0, 2.0, 3.0]), 0, np.zeros(3)
if os.path.exists("./outputs/state.npz"):
    saved = np.load("./outputs/state.npz")
    start, w = int(saved["step"]), saved["w"]
    print("continuing at", start)

for step in range(start, 400):
    w = w - 0.02 * (w - target)
    loss = float(((w - target) ** 2).mean())
    if step % 10 == 0:
        print(f"step={step}, loss={loss:.5f}", flush=True)
        np.save(f"./outputs/weights_{step}.npy", w)
        np.savez("./outputs/state.npz", step=step + 1, w=w)
    time.sleep(0.5)
np.save("./outputs/final.npy", w)
