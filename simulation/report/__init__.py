"""Reports on a campaign: the terminal, the tables and the page."""
