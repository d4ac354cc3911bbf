"""The row `pk = patrol`, `sk = canaries`: an attribute for each model with a canary or a shadow.

Patrol reads it each minute. It is apart from the rows of models, whose import would make each cold start longer.
"""

MODEL_PREFIX = "model#"
"""The beginning of a model's partition, and of its attribute in this row."""
CANARIES = ("patrol", "canaries")
