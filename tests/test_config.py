"""Configurations that would lose files or feed outputs back in are refused, with the folders named."""

from __future__ import annotations

import pytest

from inboxd import config
from inboxd.errors import ConfigError

STATE = 'state = "/srv/state"\n'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[[inbox]]\npath = "/srv/in/legal"', "/srv/in and /srv/in/legal overlap"),
        ('[[inbox]]\npath = "/srv"', "overlap"),
        ('[[inbox]]\npath = "/srv/other/../in"', "/srv/in and /srv/in overlap"),
        ('output_dir = "/srv/in"', "lies inside an inbox"),
        ('output_dir = "/srv/in/out"', "lies inside an inbox"),
        ('output_dir = "/srv/b/out"\n[[inbox]]\npath = "/srv/b"', "lies inside an inbox"),
        ('after = "archive"\narchive_dir = "/srv/in/done"', "lies inside an inbox"),
    ],
)
def test_folders_that_would_feed_each_other_are_refused(more: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config.parse(f'{STATE}[[inbox]]\npath = "/srv/in"\n{more}\n'.encode(), "inboxd.toml")
    assert words in refused.value.what
    assert refused.value.advice


def test_folders_side_by_side_are_taken() -> None:
    text = f'{STATE}[[inbox]]\npath = "/srv/in"\noutput_dir = "/srv/inbox-outputs"\n[[inbox]]\npath = "/srv/in2"\n'
    assert len(config.parse(text.encode(), "inboxd.toml").inbox) == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[[inbox]]\npath = "/srv/in"\npriority = 99999999999999999999', "priority"),
        ("[render]\nmemory_bytes = 9999999999999999999", "memory_bytes"),
        ("[render]\nmax_pages = 99999999999999999999", "max_pages"),
        ("[health]\ninterval = 1e300", "interval"),
        ("[health]\ninterval = inf", "interval"),
        ('[[inbox]]\npath = "/srv/i\\u0000n"', "path"),
        ('[[inbox]]\npath = "/srv/in"\noutput_dir = "/srv/o\\u0000ut"', "output_dir"),
        ('[[inbox]]\npath = "/srv/in"\nafter = "archive"\narchive_dir = "/srv/o\\u0000ut"', "archive_dir"),
    ],
)
def test_what_the_machine_cannot_hold_is_refused_by_name(text: str, named: str) -> None:
    """Not when the daemon has begun, as a defect, which systemd would start again for ever."""
    with pytest.raises(ConfigError) as refused:
        config.parse(f"{STATE}{text}\n".encode(), "inboxd.toml")
    assert named in refused.value.what


def test_a_state_folder_that_no_system_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="state"):
        config.parse(b'state = "/srv/st\\u0000ate"\n', "inboxd.toml")
