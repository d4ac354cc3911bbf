"""The nouns that everything else speaks of, and how they travel."""
