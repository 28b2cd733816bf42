"""An HTTP server that answers every request alike and hangs up: as little work as there can be.

Usage: server.py ADDRESS PORT. Prints `ready` when it listens.
"""

import asyncio
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n"


async def answer(reader, writer):
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        # The client gave up, which its own figures tell.
        pass
    finally:
        writer.close()


async def main(address, port):
    server = await asyncio.start_server(answer, address, port, backlog=4096)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
