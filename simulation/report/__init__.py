"""What came of worlds, for people: lines, tables, the page."""
