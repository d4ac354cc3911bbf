"""What is deployed: a file for each stack. `workflows` holds what runs, `constructs` what all of it is made of."""
