"""Programs of users that do not use Trainyard. test_scripts.py packs and runs them."""
