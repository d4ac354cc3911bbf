"""Models of the AWS services that a yard uses, in memory and in virtual time."""
