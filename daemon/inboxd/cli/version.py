"""`inboxd version`: which program this is."""

from inboxd import __version__


def version() -> None:
    """Print the version."""
    print(f"inboxd {__version__}")
