"""Lambda: a process for each concurrent invocation, given what AWS's runtime gives."""
