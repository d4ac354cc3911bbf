"""Programs as people bring them: none of them knows of Trainyard. test_scripts.py packs and runs them."""
