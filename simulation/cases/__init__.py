"""Cases: single worlds, every single fault, random combinations; run on all cores."""
