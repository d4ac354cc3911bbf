"""Lambda: a process for each concurrent invocation, with the environment of AWS's runtime."""
