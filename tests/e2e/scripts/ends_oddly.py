"""End in the way that the first argument names."""

import os
import signal
import sys
import time
import traceback

print("step 1", flush=True)
match sys.argv[1]:
    case "raises":
        raise ValueError("the labels are strings")
    case "kills itself":
        os.kill(os.getpid(), signal.SIGKILL)
    case "alarm":
        signal.alarm(1)
        time.sleep(60)
    case "goes on":
        time.sleep(60)
    case "split":
        try:
            import apex  # noqa: F401
        except ImportError:
            traceback.print_exc()
        print("step 2\n" * 30)
        sys.exit("--split must be train or test")
