"""Programs at both ends of a session's channel."""

from __future__ import annotations

import os

from tests.contract.conftest import allow

CHANNELS = allow(
    [
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
    ]
)

WHO = (b"ssm-user", b"/home/ssm-user") if os.geteuid() == 0 else (b"root", b"/root")
"""Account and home of a session. Hosts of an ordinary user's local cloud have only root."""

SERVER = """
import asyncio, sys
async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data); await writer.drain()
    writer.write(b'end'); writer.close()
async def main():
    async with await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1])) as server:
        open(sys.argv[2], 'w').write('up'); await server.serve_forever()
asyncio.run(main())
"""
