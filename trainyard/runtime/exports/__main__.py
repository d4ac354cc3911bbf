"""Complete the SavedModels in folders: `python -m trainyard.runtime.exports FOLDER ...`."""

import sys
from pathlib import Path

from trainyard.runtime import exports

if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        exports.complete(folder)
