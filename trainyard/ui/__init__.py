"""The page `trainyard ui`: a yard in the browser of this computer, with the credentials of the user who started it."""
