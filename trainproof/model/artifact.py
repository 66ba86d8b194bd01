"""What the walk found: artifacts, the runs they belong to, and what is not judged."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .rule import SubjectKind


class Kind(StrEnum):
    """What a recognised artifact holds."""

    LOG = "log"
    CHECKPOINT = "checkpoint"
    CONFIG = "config"
    DATASET = "dataset"
    TOKENIZER = "tokenizer"
    SPEECH = "speech"


class Content(StrEnum):
    """What a file turned out to be when there is nothing in it to judge.

    ``LOUD`` lists those which a person expected to be judged: they make the audit say so.
    """

    NOT_A_LOG = "not-a-log"
    EMPTY = "empty"
    HEADER_ONLY = "header-only"
    LFS_POINTER = "git-lfs-pointer"
    MARKUP_PAGE = "markup-page"
    SUMMARY_ONLY = "summary-only"
    SAVED_DATA = "saved-data"
    UNNAMED_NUMBERS = "unnamed-numbers"
    ARCHIVE = "archive"
    UNSUPPORTED = "unsupported-format"
    LINK_OUT_OF_ROOT = "link-out-of-root"
    NOT_REGULAR = "not-a-regular-file"
    EXCLUDED = "excluded"


class Artifact(msgspec.Struct, frozen=True):
    """One recognised file in a store.

    ``path`` is POSIX, relative to ``root``, and is the stable name used in every report.
    ``size`` is in bytes. ``reader`` names an entry of ``trainproof.readers.READERS``. ``part``
    says which of several runs in the file is meant.
    """

    root: str
    path: str
    size: int
    kind: Kind
    reader: str
    part: str = ""


class Unjudged(msgspec.Struct, frozen=True):
    """A file that was seen and not judged, with what it is."""

    root: str
    path: str
    content: Content
    detail: str = ""


class Run(msgspec.Struct, frozen=True):
    """Artifacts that are judged together; ``id`` is a path relative to ``root``.

    ``subject``: as what they are judged. ``beside``: for a checkpoint of several files, the paths
    of all other files in and below its directory: what should be there and is not is seen so.
    """

    id: str
    root: str
    artifacts: tuple[Artifact, ...]
    subject: SubjectKind = SubjectKind.RUN
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As the caller would spell it: a root that is one file has a run named after it."""
        paths = [artifact.path for artifact in self.artifacts]
        if paths == [self.root.rstrip("/").rpartition("/")[2]]:
            return self.root
        return self.root if self.id == "." else f"{self.root.rstrip('/')}/{self.id}"
