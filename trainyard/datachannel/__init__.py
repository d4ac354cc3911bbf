"""The data channel of Session Manager: the messages between a client and an agent in a session.

This package imports only the standard library. The client of a yard uses it, and so does the local cloud's agent, which
runs inside a host. `message`, `handshake`, `delivery` and `smux` are the protocol without clock or socket; `channel`
and `forwarding` add asyncio. aws/session-manager-plugin and aws/amazon-ssm-agent define the protocol; the vectors of
tests/unit/datachannel come from their tests.
"""
