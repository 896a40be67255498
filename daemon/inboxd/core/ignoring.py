"""Which names in an inbox are never input, and the rule that says so: a silent skip is what nobody can debug."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from inboxd.core.naming import PREFIX, candidates


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason for leaving a name alone: the glob that matched, and whose habit it is, for a person."""

    glob: str
    why: str


class _Table:
    """Rules in the order in which they are told: of two that match, the first."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = tuple((rule, _compiled(rule.glob)) for rule in rules)
        # Nearly every name is an ordinary one: one pattern for all says so at once.
        self._any = re.compile("|".join(fnmatch.translate(rule.glob) for rule in rules) or "(?!)", re.IGNORECASE)

    def first(self, name: str) -> Rule | None:
        if not self._any.match(name):
            return None
        return next(rule for rule, pattern in self._rules if pattern.match(name))


def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob), re.IGNORECASE)


def _rules(why: str, *globs: str) -> tuple[Rule, ...]:
    return tuple(Rule(glob, why) for glob in globs)


# What is particular stands before what is general.
_FILES = _Table(
    *_rules("file of inboxd itself", PREFIX.decode() + "*"),
    *_rules("download that is not finished", "*.crdownload", "*.download"),
    *_rules("transfer that is not finished", "*.part", "*.partial", "*.filepart"),
    *_rules("sync that is not finished", ".syncthing.*.tmp", "~syncthing~*.tmp"),
    *_rules("lock or owner file of an office program", "~$*", ".~lock.*#"),
    *_rules("temporary file of Word", "~WRL*.tmp", "~WRD*.tmp"),
    *_rules("temporary file", "*.tmp", "*.temp", ".goutputstream-*"),
    *_rules("file that an editor has open", ".*.sw?"),
    *_rules("scan in progress, or an editor's backup", "*~"),
    *_rules("renamed file that is still open", ".__smbfile_tmp*", ".__smbfile_silly*"),
    *_rules("metadata of macOS", "._*", ".DS_Store"),
    *_rules("deleted file that is still open", ".smbdelete*", ".nfs[0-9a-f]*", ".fuse_hidden*"),
    *_rules("metadata of a Synology", "*@SynoEAStream", "*@SynoResource"),
    *_rules("metadata of Windows", "Thumbs.db", "ehthumbs.db", "desktop.ini", "*:Zone.Identifier"),
    *_rules("rsync in progress", ".*.??????"),
    *_rules("hidden", ".*"),
)
_FOLDERS = _Table(
    *_rules("folder of inboxd", PREFIX.decode() + "*"),
    *_rules("rsync in progress", ".~tmp~", ".rsync-partial"),
    *_rules("folder of macOS", ".AppleDouble", ".TemporaryItems", ".Trashes", ".Spotlight-V100", ".fseventsd"),
    *_rules("save in progress on macOS", ".sb-*"),
    *_rules("archive folder of macOS", "__MACOSX"),
    *_rules("folder of a sync program", ".stfolder", ".stversions", ".dropbox.cache"),
    *_rules("recycle bin", ".Trash-*", "#recycle", "@Recycle", "$RECYCLE.BIN"),
    *_rules("thumbnails of a NAS", "@eaDir", ".@__thumb"),
    *_rules("snapshots of the same files", "#snapshot", ".snapshot", ".snapshots", ".zfs"),
    *_rules("folder of the operating system", "System Volume Information", "lost+found"),
    *_rules("hidden", ".*"),
)
_OUTPUT = Rule("ORIGINAL.FORMAT", "output beside its original")
_CUT = re.compile(rb"(?P<head>.+)~[0-9a-f]{12}(\.\d+)?", re.DOTALL)
_NUMBERED = re.compile(rb"(?P<original>.+)\.\d+", re.DOTALL)
_CHOICES = 20  # numbers that an output of a cut name is looked for under


def junk_file(name: bytes) -> Rule | None:
    """The built-in rule by which a file of this name is no input, whatever the settings."""
    return _FILES.first(_text(name))


def junk_folder(name: bytes) -> Rule | None:
    """The built-in rule by which a folder of this name is never looked into."""
    return _FOLDERS.first(_text(name))


def output_beside(name: bytes, names: Collection[bytes], formats: Collection[str]) -> Rule | None:
    """The rule for a name that inboxd gives to an output of a file among `names`: `scan.pdf.md`, `scan.pdf.2.md`.

    For outputs that the ledger does not know, or not yet: they are on disk before they are in the ledger.
    """
    stem, _, suffix = name.rpartition(b".")
    format = suffix.decode("ascii", "replace")
    if format not in formats:
        return None
    numbered, cut = _NUMBERED.fullmatch(stem), _CUT.fullmatch(stem)
    if stem in names or (numbered and numbered["original"] in names):
        return _OUTPUT
    if cut and any(
        original.startswith(cut["head"]) and name in islice(candidates(original, format, len(name)), _CHOICES)
        for original in names
    ):
        return _OUTPUT
    return None


class Filter:
    """What one inbox leaves alone: the built-in rules, then its own `include` and `exclude`.

    `include` globs are tried on a file's name. An `exclude` glob without `/` is tried on every name on the way
    down, file or folder; one with `/` on the path below the inbox, where `*` also stands for `/`.
    """

    def __init__(self, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()) -> None:
        self._include = None if "*" in include else _Table(*_rules("", *include))
        self._not_included = Rule(" ".join(include), "not in the inbox's include setting")
        rules = _rules("in the inbox's exclude setting", *exclude)
        self._names = _Table(*(rule for rule in rules if "/" not in rule.glob))
        self._paths = _Table(*(rule for rule in rules if "/" in rule.glob))

    def file(self, folder: bytes, name: bytes) -> Rule | None:
        """The rule by which the file `name` in `folder` (below the inbox; `b""` is the inbox) is no input."""
        text = _text(name)
        if rule := _FILES.first(text) or self._excluded(folder, text):
            return rule
        return self._not_included if self._include and not self._include.first(text) else None

    def folder(self, parent: bytes, name: bytes) -> Rule | None:
        """The rule by which the folder `name` in `parent` is not looked into."""
        text = _text(name)
        return _FOLDERS.first(text) or self._excluded(parent, text)

    def path(self, path: bytes) -> Rule | None:
        """The rule by which a file at `path` below the inbox is no input: that of a folder on the way, or its own."""
        folder = b""
        *parents, name = path.split(b"/")
        for parent in parents:
            if rule := self.folder(folder, parent):
                return rule
            folder = folder + b"/" + parent if folder else parent
        return self.file(folder, name)

    def _excluded(self, folder: bytes, name: str) -> Rule | None:
        return self._names.first(name) or self._paths.first(f"{_text(folder)}/{name}" if folder else name)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
