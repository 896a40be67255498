"""All verbs in one command."""

import click

from inboxd import __version__
from inboxd.cli.check import check
from inboxd.cli.fetch_model import fetch_model
from inboxd.cli.files import files
from inboxd.cli.gpus import gpus
from inboxd.cli.ignored import ignored
from inboxd.cli.init import init
from inboxd.cli.install_service import install_service, uninstall_service
from inboxd.cli.ocr import ocr
from inboxd.cli.pause import pause, resume
from inboxd.cli.prune import prune
from inboxd.cli.recycle import recycle
from inboxd.cli.requeue import requeue
from inboxd.cli.run import run
from inboxd.cli.search import search
from inboxd.cli.show import show
from inboxd.cli.sql import sql
from inboxd.cli.status import status
from inboxd.cli.version import version

VERBS = (
    init,
    check,
    gpus,
    fetch_model,
    run,
    status,
    files,
    show,
    requeue,
    pause,
    resume,
    recycle,
    search,
    sql,
    ocr,
    ignored,
    prune,
    install_service,
    uninstall_service,
    version,
)


class _InOrder(click.Group):
    """Lists the verbs as they stand above, which is as one needs them, not by alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    commands=VERBS,
    epilog="Exit codes: 0 done, 1 not possible, 64 wrong usage, 70 a part of it died, 75 planned restart, "
    "78 configuration or machine wrong.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="inboxd %(version)s")
def app() -> None:
    """Drop a scan into a folder: readable text appears beside it, and a ledger remembers every page."""
