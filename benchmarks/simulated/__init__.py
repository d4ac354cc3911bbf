"""What is measured under virtual time: worlds, a week of runs, many hosts. Nothing here asks the local cloud."""
