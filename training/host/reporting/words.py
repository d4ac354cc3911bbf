"""Words next to a printed number that name the measured quantity."""

TRAINING = frozenset({"train", "training", "trn", "tr"})
ASIDE = frozenset(
    """val valid validation validating validate eval evaluation evaluating evaluate evaluated test
    testing tested dev holdout best lowest highest min minimum max previous target initial baseline
    dict""".split()  # noqa: SIM905 - a list would fill a page
)
"""Words before a number that is not the training's. TensorFlow's estimators print an evaluation as `Saving dict
...`."""
EVALUATED = {
    **dict.fromkeys("val valid validation validating validate".split(), "val"),  # noqa: SIM905
    **dict.fromkeys("eval evaluation evaluating evaluate".split(), "val"),  # noqa: SIM905
    **dict.fromkeys("test testing tested".split(), "test"),  # noqa: SIM905
}
"""Words of ASIDE that name a set of examples, with the beginning of the names of its metrics."""
PLAIN = frozenset(
    """total avg average mean batch running step iter iteration epoch global current cur smoothed lm
    mlm log mlog nll sparse categorical binary with and the its has now at end finished done cross
    entropy mse ce""".split()  # noqa: SIM905 - a list would fill a page
)
"""Words before `loss` or `accuracy` that still mean the whole value. Any other word names a part of it."""
GENERATOR = frozenset({"g", "gen", "generator"})
DISCRIMINATOR = frozenset({"d", "disc", "discriminator", "critic"})
"""The two networks of a GAN. A GAN has no whole loss, so the generator's loss counts if a line has both."""
OWN = frozenset({"loss", "acc", "accuracy", "cost"})
"""The numbers that every run has."""
COUNTS = frozenset(
    """epoch epochs step steps iter iters iteration iterations batch batches eta time elapsed remaining seconds sec secs
    s ms it its speed total rank pid gpu worker host port size len length num n samples seed version""".split()  # noqa: SIM905
)
"""Words of a name whose number measures no training."""
