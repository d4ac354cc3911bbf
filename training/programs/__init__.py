"""Reference programs. Run each as `python -m training.programs.NAME`."""
