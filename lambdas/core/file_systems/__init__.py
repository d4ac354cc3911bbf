"""File systems as data: where hosts reach them, and the reasons for which they do not."""
