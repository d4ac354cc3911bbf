"""The commands, by what they are about. They import nothing heavy before they are called: `--help` is quick."""
