"""The program that does a target's side of the work, in the target's own Python.

It is sent over standard input and leaves nothing installed. It uses the standard library only,
runs on Python >= 3.6, and is split into parts that :mod:`patcher.targets.program` joins when it
sends them (in :data:`PARTS` order: a part may import only from the parts before it).

Exchange: the client sends a program, then requests; the agent answers a greeting that only it can
compute (so that what a shell's start-up files print before it is skipped, never parsed), then
frames. Each request is answered by any number of ``progress``, ``rows`` and data frames, and one
last ``ok`` or ``error``. The session ends with ``bye``, a trailer frame and exit status 0; an end
without those is an error for the client, never a shorter result.
"""

PARTS = (
    "frames",
    "faults",
    "disk",
    "files",
    "procs",
    "facts",
    "names",
    "journal",
    "state",
    "swap",
    "expect",
    "check",
    "stage",
    "push",
    "query",
    "main",
)
