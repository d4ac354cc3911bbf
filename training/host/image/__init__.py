"""A disk that becomes an image, or came from one."""
