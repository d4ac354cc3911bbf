"""PyTorch: checkpoints are named by their step, and the last one written is the newest."""

import glob
import os
import time

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
step = 0

os.makedirs("checkpoints", exist_ok=True)
paths = sorted(glob.glob("checkpoints/*.pt"), key=os.path.getmtime)
if paths:
    checkpoint = torch.load(paths[-1], weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    step = checkpoint["step"]
    print(f"resuming from {paths[-1]} at step {step}")

while step < 600:
    x = torch.randn(64, 16)
    loss = nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 5 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step % 10 == 0:
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
            f"checkpoints/{step:07d}.pt",
        )
    time.sleep(0.4)
print("training finished at step", step)
