"""Until when a host may run, or be left alone: lease, hold, AWS's notice."""
