"""TLS between scheduler, workers and client: certificates in files, or Dask's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.errors import BadValueError

if TYPE_CHECKING:
    from distributed.security import Security

_OPTIONS = "--tls-ca-file, --tls-cert and --tls-key"


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
