"""The page `trainyard ui`: a yard in a browser, on this computer alone, with the credentials of whoever started it."""
