"""`python -m localcloud`."""

from localcloud.cli import main

main()
