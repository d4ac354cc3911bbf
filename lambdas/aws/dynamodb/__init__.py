"""DynamoDB: the yard's one table, as the ledger of runs and as patrol's logbook."""
