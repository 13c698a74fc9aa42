"""Who may call a server over HTTP: address, Host names, and the token that clients must send."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import BadValueError

ENVIRONMENT_VARIABLE = "KERNELKB_TOKEN"
_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~+/-]{20,512}=*")
"""Token syntax of RFC 6750; at least 20 characters, because shorter ones can be guessed."""


@dataclass(frozen=True)
class HttpConfig:
    """HTTP address, and the hosts and origins that may call."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: the system chooses a free port."""
    allowed_hosts: tuple[str, ...] = ()
    """Further Host names, with or without port, that clients may use."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins that may call; browser requests from others are rejected."""
    token_file: Path | None = None


class Token(NamedTuple):
    """A token, and whether it was created just now."""

    text: str
    is_new: bool


def load_token(file: Path | None) -> Token:
    """Return the token from a file, else from KERNELKB_TOKEN, else a new one of 256 bits.

    Removes the variable from the environment, so that compilers and kernels do not inherit it.

    Raises:
        BadValueError: The file cannot be read, others may read it, or its content is not a token.
    """
    variable = os.environ.pop(ENVIRONMENT_VARIABLE, None)
    if file is not None:
        return Token(_validate_token(_read_token_file(file), str(file)), is_new=False)
    if variable is not None:
        return Token(_validate_token(variable.strip(), ENVIRONMENT_VARIABLE), is_new=False)
    return Token(secrets.token_urlsafe(32), is_new=True)


def _read_token_file(file: Path) -> str:
    try:
        with file.open(encoding="ascii") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
                raise BadValueError(f"others may read {file}; chmod 600 {file}")
            return opened.read(1024).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not ASCII text"
        raise BadValueError(f"cannot read the token of {file}: {reason.lower()}") from error


def _validate_token(token: str, where: str) -> str:
    if not _TOKEN_PATTERN.fullmatch(token):
        cure = 'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
        raise BadValueError(f"{where} holds no token of 20 or more letters and digits; {cure}")
    return token


def is_loopback(host: str) -> bool:
    """Return whether an address is loopback; of names only ``localhost`` counts."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def list_accepted_hosts(http_config: HttpConfig, port: int) -> list[str]:
    """Return every accepted Host header, with port, as clients spell it."""
    names = [format_host(http_config.host)]
    if http_config.host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):  # noqa: S104 compared
        names = ["127.0.0.1", "localhost", *(["[::1]"] if ":" in http_config.host else [])]
    if http_config.host in ("0.0.0.0", "::"):  # noqa: S104 compared
        names.append(socket.gethostname())
    hosts = [f"{name}:{port}" for name in names]
    for name in http_config.allowed_hosts:
        hosts += [name] if ":" in name.rpartition("]")[2] else [name, f"{name}:{port}"]
    return [*hosts, *(names if port == 80 else [])]


def format_host(host: str) -> str:
    """Return an address as it stands in a URL: that of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def bind_socket(http_config: HttpConfig) -> socket.socket:
    """Bind and listen first, so that the printed URL is true."""
    family = socket.AF_INET6 if ":" in http_config.host else socket.AF_INET
    # asyncio sends small answers at once only where it knows that the protocol is TCP.
    channel = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        channel.bind((http_config.host, http_config.port))
        channel.listen(128)
    except OSError:
        channel.close()
        raise
    return channel
