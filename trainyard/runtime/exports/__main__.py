"""Complete the SavedModel in a folder: `python -m trainyard.runtime.exports FOLDER`."""

import sys
from pathlib import Path

from trainyard.runtime import exports

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    lite = exports.complete(folder).lite
    assert lite
    print(f"{folder}: LiteRT runs it {lite.how}" + (f" ({lite.reason})" if lite.reason else ""))
