"""How long the inventory of an official release takes: uncached, cached, and after an edit.

Run ``python -m benchmarks.inventory [VERSION]`` from the repository's root. Medians in seconds,
in this process, of trees that are already in memory; the limits are those of the project.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import inventory
from inventory import Cache
from patcher.targets.index import IndexTarget
from patcher.tree import Tree

REPEAT = 5
UNCACHED_S, CACHED_S = 4.0, 0.1


def release(version: str) -> Callable[[], Tree]:
    """Make trees of a release that have parsed nothing yet."""
    with IndexTarget.parse(version).connect() as session:
        snapshot = session.snapshot(())
        contents = dict(snapshot.contents)
    manifest = snapshot.manifest

    def make() -> Tree:
        return Tree(manifest.files, lambda entry: contents[entry.sha256], manifest.facts)

    return make


def median(work: Callable[[], object]) -> float:
    spent = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def main() -> int:
    version = sys.argv[1] if len(sys.argv) > 1 else "0.5.11"
    make = release(version)
    fresh = median(lambda: inventory.run(make()))
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        found = inventory.run(make(), cache)
        cached = median(lambda: inventory.run(make(), cache))
        edited = []
        for number in range(REPEAT):
            path = "sglang/srt/server_args.py"
            tree = make()
            tree = tree.with_changes({path: tree.read(path) + b"# %d\n" % number})
            start = time.perf_counter()
            inventory.run(tree, cache)
            edited.append(time.perf_counter() - start)
    rows = sum(len(rows) for rows in found.rows.values())
    print(f"sglang {version}: {found.coverage}; {rows} rows")
    print(f"uncached          {fresh:6.3f} s  (limit {UNCACHED_S})")
    print(f"cached            {cached:6.3f} s  (limit {CACHED_S})")
    print(f"one file changed  {statistics.median(edited):6.3f} s")
    return int(fresh > UNCACHED_S or cached > CACHED_S)


if __name__ == "__main__":
    sys.exit(main())
