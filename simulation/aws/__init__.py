"""The services of AWS that a yard uses, in memory, under the world's time."""
