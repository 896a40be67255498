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
