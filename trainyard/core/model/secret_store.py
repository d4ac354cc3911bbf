"""The command for users that stores a secret of `program.secrets`."""


def store_secret(parameter: str) -> str:
    """Return the shell line that stores a secret.

    The value is typed without being shown and is not part of the command line, which other accounts of the computer can
    read and which the shell keeps in its history.
    """
    put = f"aws ssm put-parameter --type SecureString --name {parameter} --value file:///dev/stdin"
    return f'read -rs VALUE; printf %s "$VALUE" | {put}'
