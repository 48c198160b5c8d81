"""The patching machine: snapshots, patterns, edits, verification and pushes.

Nothing in this package knows a particular patch set; sets are discovered below ``patches``.
"""

__version__ = "0.1.0"
