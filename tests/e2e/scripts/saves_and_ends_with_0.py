"""Save after SIGTERM and end with 0, like most scripts."""

import os
import signal
import sys
import time
from pathlib import Path

STEPS = 120
saved = Path(os.environ["TRAINYARD_CHECKPOINTS"]) / "state.txt"
step = int(saved.read_text()) if saved.exists() else 0
pause = 5.0 if os.environ["TRAINYARD_ATTEMPT"] == "1" else 0.01
print(f"starting at {step}", flush=True)


def save() -> None:
    saved.write_text(str(step))


def leave(*_: object) -> None:
    save()
    sys.exit(0)


signal.signal(signal.SIGTERM, leave)
while step < STEPS:
    step += 1
    print(f"step {step}/{STEPS} loss {1 / step:.4f}", flush=True)
    if step in (3, STEPS):
        save()
    if step > 3:
        time.sleep(pause)
print("trained to the end", flush=True)
