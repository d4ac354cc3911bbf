"""The data channel of Session Manager: what a client and an agent say to each other in a session.

Nothing of ours, and nothing but Python's own library: the client of a yard speaks it, and the local cloud's agent,
which runs inside a host. `message`, `handshake`, `delivery` and `smux` are what goes over the wire, without clock or
socket; `channel` and `forwarding` are asyncio's around them. The protocol is that of aws/session-manager-plugin and
aws/amazon-ssm-agent, whose own tests are the vectors of tests/unit/datachannel.
"""
