"""Render the DDTREE templates without a release, for tests of what no release changes.

``test_releases`` takes the modules as the patch set renders them for each release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "templates" / "ddtree"

#: Values as of 0.5.11, for the modules whose text does not depend on the release.
NEUTRAL = {
    "current_token_field": "verified_id",
    "finish_check": "check_finished",
    "correct_drafts_counter": "spec_accepted_drafts",
    "correct_drafts_histogram": "update_spec_acceptance_histogram",
    "draft_window_field": "speculative_dflash_draft_window_size",
    "forward_batch_holds_pools": True,
}


def render(values: dict[str, Any]) -> dict[str, str]:
    """Text of every module by its path from the package's parent."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return {
        name.removesuffix(".j2"): environment.get_template(name).render(values)
        for name in environment.list_templates(extensions=["j2"])
    }


def write(values: dict[str, Any], package_parent: Path) -> list[Path]:
    """Render into a package; returns the files written."""
    written = []
    for name, text in render(values).items():
        path = package_parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(path)
    return written
