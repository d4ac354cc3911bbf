"""The nouns that everything else speaks of."""
