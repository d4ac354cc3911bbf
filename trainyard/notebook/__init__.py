"""A notebook as a job: read and checked before it is sent, executed cell by cell on the host."""
