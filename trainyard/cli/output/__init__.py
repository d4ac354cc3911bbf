"""What a person is shown: on a terminal, in a pipe, while it goes on and when it is over."""
