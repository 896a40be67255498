"""`inboxd fetch-model`: bring a model to this machine, whole."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inboxd.cli import given
from inboxd.cli.printing import say, shown, size
from inboxd.errors import UsageError


@click.command("fetch-model")
@click.argument("name", required=False)
@given.config_option
@click.option(
    "--to", type=given.PATH, metavar="FOLDER", help="Put it there; else under `state`, where the engine looks."
)
@click.option("--revision", default="main", metavar="REV", help="A branch, tag or commit of the repository.")
def fetch_model(name: str | None, config: Path | None, to: Path | None, revision: str) -> None:
    """Bring a model from Hugging Face and verify it.

    NAME is a profile of etc/models.toml or a Hugging Face id; without it, the configured model. A download that
    was cut off goes on where it stopped. Afterwards the engine needs no network.
    """
    from inboxd import hub, profiles
    from inboxd.engines import vllm_model

    settings = given.settings_or_defaults(config) if to is not None else given.settings(config)
    rows = profiles.load(settings.engine.profiles)
    wanted = name or settings.engine.model or rows.default_model.name
    row = rows.model(wanted)
    repository = row.repository if row else wanted
    if "/" not in repository:
        names = ", ".join(row.name for row in rows.models if row.repository)
        raise UsageError(f"{wanted!r} is no model profile with a repository, and no Hugging Face id", f"Try: {names}")
    folder = to or vllm_model.fetched(settings.state_dir / "models", repository)

    found = hub.look(repository, revision)
    say(f"{repository} at {found.commit[:12]}: {len(found.files)} files, {size(found.size)}")
    with click.progressbar(
        length=found.size, label="fetching", show_pos=False, hidden=not sys.stderr.isatty(), file=sys.stderr
    ) as bar:
        try:
            hub.bring(found, folder, bar.update)
        except OSError as error:
            raise hub.HubError(
                f"cannot write in {shown(folder)}: {error.strerror}",
                "Make room there, run it as the daemon's user, or name another folder with --to.\n"
                "Run again it goes on where it stopped.",
            ) from error
    if (trouble := vllm_model.trouble(folder)) is not None:
        raise hub.HubError(f"{repository} came whole, but is no model for vLLM: {trouble}", "Is it the right one?")
    say(f"{shown(folder)} is whole: every file has the hash that the hub gives.")
