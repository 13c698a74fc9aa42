"""The bearer token that HTTP clients must send."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import BadValueError

ENVIRONMENT_VARIABLE = "KERNELKB_TOKEN"
_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~+/-]{20,512}=*")
"""Token syntax of RFC 6750; at least 20 characters, because shorter ones can be guessed."""


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
