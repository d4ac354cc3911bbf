"""What patrol decides about hosts, and how it says so."""
