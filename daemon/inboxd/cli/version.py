"""`inboxd version`: which program this is."""

import click

from inboxd import __version__


@click.command()
def version() -> None:
    """Print the version."""
    print(f"inboxd {__version__}")
