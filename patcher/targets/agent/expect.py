"""What each file that was ever pushed should be now, told by the journals alone.

A file should be what the newest standing push wants it to be. Where none stands on it, it should
be pristine: as a push found it that had no other below it on that file. A later push can have
found something newer than the first one did (an upgrade, an edit); then both are pristine.
"""

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from .frames import AgentError
from .journal import COMMITTED, ROLLED_BACK, ROLLING_BACK, Journal
from .state import State

PRISTINE = "pristine"
OURS = "ours"
MODIFIED = "modified"
FOREIGN = "foreign"
MISSING = "missing"
ORPHAN = "orphan"


class Want:
    """What is known about one path; contents are sha256 in hex, empty for no file."""

    def __init__(self) -> None:
        self.originals: List[str] = []
        """What pushes found that had no other below them on this file, oldest first."""
        self.written: Set[str] = set()
        """What pushes have written."""
        self.stands = False
        """Whether a standing push is about this file."""
        self.ours = ""
        """What the newest such push wants."""
        self.kept = False
        """Whether the newest thing done to this file was a rollback that was to keep it."""

    def expected(self, found: str) -> str:
        """Return the content that the file should have, given the one that it has."""
        if self.stands:
            return self.ours
        return found if found in self.originals else self.originals[-1]

    def word(self, found: str) -> str:
        """Return one of the six words for files; empty for a path that is rightly absent."""
        wanted = self.expected(found)
        if found == wanted and self.stands:
            return OURS if found or self.originals[-1] else ""
        if found == wanted:
            return PRISTINE if found else ""
        if not found:
            return MISSING
        if found in self.originals:
            return PRISTINE
        if found in self.written:
            return ORPHAN
        return MODIFIED if wanted or self.kept else FOREIGN


class Push(NamedTuple):
    """A push of the journals, and when it came to be what it is."""

    id: str
    set: str
    set_version: str
    time: str


class Expected(NamedTuple):
    """Every path, the newest push that stands, and the newest that was rolled back."""

    files: Dict[str, Want]
    standing: Optional[Push]
    undone: Optional[Push]


def newest(state: State) -> Optional[str]:
    """Return the newest standing push, an empty string for none."""
    for name in reversed(state.ids()):
        txn = state.load(name)
        stands = txn.journal.state == COMMITTED
        txn.close()
        if stands:
            return name
    return ""


def _below(journal: Journal, before: List[Tuple[str, str]]) -> str:
    """Return the push that stood when this one began.

    ``before`` has the earlier ones, each with the time of its end (empty: it stands). Journals
    say it themselves since ddpatch 0.1; times, in whole seconds, are for those that do not.
    """
    told = journal.begin.get("over")
    if told is not None:
        return str(told)
    began = journal.begin["owner"]["time"]
    return next((name for name, end in reversed(before) if not end or end > began), "")


def expected(state: State) -> Expected:
    """Read all journals."""
    files: Dict[str, Want] = {}
    below: Dict[str, str] = {"": ""}
    touched: Dict[str, Set[str]] = {"": set()}
    undone_after: Dict[str, Set[str]] = {"": set()}
    ends: List[Tuple[str, str]] = []
    standing: Optional[Push] = None
    undone: Optional[Push] = None
    for name in state.ids():
        txn = state.load(name)
        journal = txn.journal
        txn.close()
        stands = journal.state == COMMITTED
        back = journal.last(ROLLED_BACK) or journal.last(ROLLING_BACK)
        below[name] = _below(journal, ends)
        ends.append((name, "" if stands else back.get("time", "")))
        # A push comes off only when none is above it, so what stood below it is all touched here.
        under = touched[below[name]]
        paths = {op.path for op in journal.ops}
        touched[name] = under | paths
        later = undone_after[below[name]]
        undone_after[name] = later if stands else later | paths
        keep = back.get("kept", back.get("keep", []))
        for op in journal.ops:
            want = files.setdefault(op.path, Want())
            if op.path not in under:
                want.originals.append(op.old)
            want.written.add(op.new)
            if stands:
                want.stands, want.ours = True, op.new
            if op.path not in later:  # else the rollback of a push below came after this one's
                want.kept = not stands and op.path in keep
        label = (name, journal.begin["set"], journal.begin["set_version"])
        if stands:
            standing = Push(*label, time=journal.last(COMMITTED)["time"])
        elif back and (undone is None or back["time"] >= undone.time):
            undone = Push(*label, time=back["time"])
    return Expected(files, standing, undone)


def explained(error: AgentError, state: State) -> AgentError:
    """Tell drift that pushes and rollbacks after the snapshot explain from drift that none does."""
    told = expected(state)
    left, known = [], 0
    for row in error.detail["files"]:
        want = told.files.get(row["path"])
        found = "" if row["found"] == "absent" else row["found"]
        if want is not None and found == want.expected(found):
            known += 1
        else:
            left.append(row)
    cause = told.standing or told.undone
    if not known or cause is None:
        return error
    return AgentError(
        "stale",
        "the snapshot is older than the newest push or rollback",
        push=cause._asdict(),
        stands=told.standing is not None,
        files=left,
    )
