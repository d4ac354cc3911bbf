"""The local cloud's EC2: moto's store and serialising, our launches, lifecycle, fleets, images and network.

Start reading at `api.py` (which class answers what), then `actions/launch.py` and `instances/lifecycle.py`.
"""
