"""Where hosts could be had, for how much, and in which order to ask."""
