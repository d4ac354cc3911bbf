"""The choice of the version that answers in the function for predictions, and the versions that it keeps in memory."""
