"""All verbs in one typer application."""

import typer

from inboxd.cli.check import check
from inboxd.cli.files import files
from inboxd.cli.ignored import ignored
from inboxd.cli.init import init
from inboxd.cli.install_service import install_service, uninstall_service
from inboxd.cli.ocr import ocr
from inboxd.cli.pause import pause, resume
from inboxd.cli.prune import prune
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
    run,
    status,
    files,
    show,
    requeue,
    pause,
    resume,
    search,
    sql,
    ocr,
    ignored,
    prune,
    install_service,
    uninstall_service,
    version,
)

# Plain help and errors: rich ones would cost each call a tenth of a second and read markup out of file names.
app = typer.Typer(
    help="Drop a scan into a folder: readable text appears beside it, and a ledger remembers every page.",
    epilog="Exit codes: 0 done, 1 not possible, 64 wrong usage, 75 planned restart, 78 configuration or machine wrong.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in VERBS:
    app.command()(verb)


def _version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _root(
    _: bool = typer.Option(False, "--version", is_eager=True, callback=_version, help="Print the version."),
) -> None:
    return
