"""JSON: one document, complete, with a schema version."""

from __future__ import annotations

import json

from patcher.model import SCHEMA_VERSION, Report, to_json
from patcher.report import Renderer


def render(report: Report) -> str:
    """The report as one JSON document; nothing is ever left out of it."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": report.command,
        "exit_code": int(report.exit_code),
        "headline": report.headline,
        **to_json(report.data),
        "findings": [to_json(f) for f in report.findings],
        "next_step": report.next_step,
    }
    return json.dumps(document, indent=2)


RENDERER = Renderer("json", "one document for programs, with schema_version", render)
