"""AWS on one machine: an endpoint that standard clients cannot tell from AWS for what Trainyard relies on."""
