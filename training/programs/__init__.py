"""Reference programs, each to be run as `python -m training.programs.NAME`."""
