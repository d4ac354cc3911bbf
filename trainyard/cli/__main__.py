"""Entry point of `trainyard`."""

import sys


def main() -> None:
    """Run the command line, and exit with the code that failures.py chooses."""
    try:
        from trainyard.cli.app import app

        app(prog_name="trainyard")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
