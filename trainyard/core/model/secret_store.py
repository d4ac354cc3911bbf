"""How a user stores a secret of `program.secrets`."""


def store_secret(parameter: str) -> str:
    """Return the shell line that stores a secret. The value is typed unseen: every account of a computer reads the
    command lines of all others, and the shell keeps them in its history."""
    put = f"aws ssm put-parameter --type SecureString --name {parameter} --value file:///dev/stdin"
    return f'read -rs VALUE; printf %s "$VALUE" | {put}'
