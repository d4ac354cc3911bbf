"""The ledger, one DynamoDB table: each row declared once, with every field explained under it.

Fields that a row lacks take their defaults; fields that a class lacks are ignored. So functions, hosts and clients of
two versions read each other's rows. Times are ISO-8601 UTC with milliseconds and Z; money is dollars.
"""
