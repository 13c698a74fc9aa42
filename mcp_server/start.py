"""Start the server, without a look for garbage while it starts."""

from __future__ import annotations

import gc


def main() -> None:
    """Serve; see ``kernelkb_mcp.server``.

    What is made while it starts lives to its end: 137,000 objects, and looking through them again
    and again was a tenth to a third of the time until the first answer.
    """
    gc.disable()
    from kernelkb_mcp.server import main as serve

    serve()
