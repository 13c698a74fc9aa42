"""A real SSH server on loopback: ``python ssh_server.py HOST_KEY AUTHORIZED_KEYS LOG``.

Prints its port; runs each command in a shell and writes it to LOG.
"""

import asyncio
import sys
from pathlib import Path

import asyncssh


async def serve(host_key, authorized_keys, log):
    async def run(process):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{process.command}\n")
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_shell(
            process.command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
        process.exit(await child.wait())

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=authorized_keys,
        process_factory=run,
        encoding=None,
    )
    print(server.get_port(), flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
