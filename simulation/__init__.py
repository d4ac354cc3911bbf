"""The whole yard under virtual time: the real functions, documents, rules and policies; AWS and hosts as models."""
