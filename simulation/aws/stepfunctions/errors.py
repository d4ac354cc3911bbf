"""The error of a state."""


class StateError(Exception):
    """A state failed with an error name of AWS. The sender of a task failure may omit name and cause."""

    def __init__(self, error: str | None, cause: str | None) -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause
