"""`python -m localcloud`."""

from localcloud.cli.commands import main

main()
