"""The local cloud's EC2: moto's store and serialization, with our launches, lifecycle, fleets, images and network.

Start reading at `api.py` (dispatch of requests), then `actions/launch.py` and `instances/lifecycle.py`.
"""
