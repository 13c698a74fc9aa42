"""Reads which workers the user wants, and checks that Dask is installed."""

from __future__ import annotations

import ipaddress
import re
from importlib.util import find_spec
from typing import Literal, NamedTuple

from kernelkb.errors import BadValueError, EnvironmentGapError
from kernelkb.installing import format_install_command

_FORMS = "write auto, ssh:HOST,HOST[:PORT], tls://HOST:PORT, or tcp://127.0.0.1:PORT"
_HOST = re.compile(r"[\w.@%-]+|\[[0-9a-fA-F:.%\w]+\]")


class WorkersChoice(NamedTuple):
    """Where the workers are."""

    kind: Literal["auto", "ssh", "address"]
    hosts: tuple[str, ...] = ()
    """Of ``ssh``, as ssh takes them: a name, an address, an alias of its configuration."""
    port: int | None = None
    """Of the ssh servers; None leaves it to ssh."""
    address: str = ""
    """Of a scheduler that runs."""


def parse_workers(text: str) -> WorkersChoice:
    """Read ``auto``, ``ssh:h1,h2[:port]``, ``tls://host:port`` or ``tcp://host:port``.

    Raises:
        BadValueError: It is none of these, or tcp:// with an address that is not loopback.
    """
    if text == "auto":
        return WorkersChoice("auto")
    if text.startswith("ssh:"):
        return _parse_ssh(text)
    return WorkersChoice("address", address=check_address(text))


def _parse_ssh(text: str) -> WorkersChoice:
    listed = text.removeprefix("ssh:")
    found = re.fullmatch(r"(.*?)(?::(\d{1,5}))?", listed)
    hosts = tuple(part.strip() for part in found[1].split(",")) if found else ()
    # A host that starts with a dash would be an option of ssh.
    if not hosts or not all(_HOST.fullmatch(host) and host[0] != "-" for host in hosts):
        raise BadValueError(f"{text!r} names no hosts; {_FORMS}")
    if len(set(hosts)) < len(hosts):
        raise BadValueError(f"{text!r} names a host twice")
    port = int(found[2]) if found and found[2] else None
    if port is not None and not 0 < port < 65536:
        raise BadValueError(f"{port} is no port; write 1 to 65535")
    return WorkersChoice("ssh", hosts, port)


def check_address(text: str) -> str:
    """Return the address of a scheduler.

    Raises:
        BadValueError: No such address, or one without TLS that other hosts can reach.
    """
    found = re.fullmatch(rf"(tcp|tls)://({_HOST.pattern}):(\d{{1,5}})", text)
    if found is None or not 0 < int(found[3]) < 65536:
        raise BadValueError(f"{text!r} is no address of workers; {_FORMS}")
    if found[1] == "tcp" and not is_loopback(found[2]):
        raise BadValueError(
            f"{text} has no encryption, and anyone who reaches it could run code; start the "
            "scheduler and the workers with --tls-ca-file, --tls-cert and --tls-key, and write "
            f"tls://{found[2]}:{found[3]}"
        )
    return text


def is_loopback(host: str) -> bool:
    """Return whether only this host reaches it: ``localhost``, ``127.0.0.0/8``, ``::1``."""
    name = host.rpartition("@")[2].strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def require_packages() -> None:
    """Raise EnvironmentGapError if a package of the extra ``cluster`` is missing."""
    missing = [name for name in ("cryptography", "distributed") if find_spec(name) is None]
    if missing:
        raise EnvironmentGapError(
            f"not installed: {', '.join(missing)}", format_install_command("cluster")
        )
