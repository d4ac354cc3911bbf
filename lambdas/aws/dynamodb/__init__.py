"""The yard's DynamoDB table: the ledger of runs and patrol's logbook."""
