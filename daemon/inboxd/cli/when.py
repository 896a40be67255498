"""The ledger's UTC times, as the person's clock shows them."""

from __future__ import annotations

from datetime import UTC, datetime


def local(stamp: str | None) -> str:
    """`YYYY-MM-DD HH:MM:SS` in the local time zone, or nothing."""
    if not stamp:
        return ""
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
