"""Begins an HTML page that needs no network and no script, and forbids both."""

from __future__ import annotations

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def format_page_start(title: str, style: str) -> str:
    """Return everything up to the start of the body.

    Args:
        title: Escaped text.
        style: A style sheet.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title><style>{style}</style></head><body>"
    )
