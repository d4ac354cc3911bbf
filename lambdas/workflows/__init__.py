"""One module per Lambda function: parse, gather, decide (lambdas.core), act (lambdas.aws), answer."""
