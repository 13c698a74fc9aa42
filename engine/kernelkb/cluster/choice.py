"""What a command says of its workers: where they are, and the certificates that they show."""

from __future__ import annotations

import ipaddress
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from kernelkb.errors import BadValueError, EnvironmentGapError, format_install_command

if TYPE_CHECKING:
    from distributed.security import Security

_FORMS = "write auto, ssh:HOST,HOST[:PORT], tls://HOST:PORT, or tcp://127.0.0.1:PORT"
_HOST = re.compile(r"[\w.@%-]+|\[[0-9a-fA-F:.%\w]+\]")

_OPTIONS = "--tls-ca-file, --tls-cert and --tls-key"


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


class TlsFiles(NamedTuple):
    """Three PEM files, as ``dask scheduler`` takes them; all or none."""

    ca_file: Path | None = None
    """Who signed the certificates of the others."""
    cert: Path | None = None
    key: Path | None = None

    def is_given(self) -> bool:
        """Return whether files are named.

        Raises:
            BadValueError: Some of the three are, or one does not exist.
        """
        named = [path for path in self if path is not None]
        if named and len(named) < len(self):
            raise BadValueError(f"{_OPTIONS} go together: name all three")
        for path in named:
            if not path.is_file():
                raise BadValueError(f"{path} does not exist")
        return bool(named)


def load_security(address: str, files: TlsFiles) -> Security:
    """Return what joins a scheduler: the files, else what Dask's configuration names.

    Raises:
        BadValueError: The address asks for TLS and there is no certificate, or a file holds none.
    """
    from distributed.security import Security

    if files.is_given():
        named = build_security(str(files.ca_file), str(files.cert), str(files.key))
        try:
            named.get_connection_args("client")
        except OSError as error:  # ssl's error is one
            why = f"{_OPTIONS} name no certificates and key of them in PEM ({error})"
            raise BadValueError(f"{why}; give those of the scheduler") from error
        return named
    security = Security()
    if address.startswith("tls://") and not (
        security.tls_ca_file and security.tls_client_cert and security.tls_worker_cert
    ):
        raise BadValueError(
            f"{address} needs a certificate; name {_OPTIONS}, or distributed.comm.tls in Dask's "
            "configuration"
        )
    return security


def build_security(ca_file: str, cert: str, key: str) -> Security:
    """Return one certificate for every part; paths, or the PEM text itself."""
    from distributed.security import Security

    roles = ("client", "scheduler", "worker")
    return Security(
        require_encryption=True,
        tls_ca_file=ca_file,
        **{f"tls_{role}_cert": cert for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )
