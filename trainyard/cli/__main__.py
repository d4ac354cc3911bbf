"""What `trainyard` starts."""

import sys


def main() -> None:
    """The command line; ends the process with the exit code (failures.py)."""
    try:
        from trainyard.cli.app import app

        app(prog_name="trainyard")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
