"""Add a file, rendered from a Jinja2 template with values that probes choose."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from patcher.changes import Conflict, Splice
from patcher.edits.base import unreadable
from patcher.model import Finding, Site, UsageError
from patcher.probe import Probe, Shows, Subject
from patcher.source import Source, Unreadable


@dataclass(frozen=True)
class Choice:
    """A value for a template variable, and the probe that picks it."""

    value: Any
    when: Probe


@dataclass(frozen=True)
class Variable:
    """A template variable: the first choice whose probe holds gives its value."""

    name: str
    what: str
    choices: tuple[Choice, ...]

    def resolve(self, subject: Subject) -> Any:
        """The value for one tree. Raises Conflict when no choice holds."""
        try:
            for choice in self.choices:
                if choice.when.holds(subject):
                    return choice.value
        except Unreadable as error:
            raise unreadable(error) from error
        asked = "; ".join(c.when.describe() for c in self.choices)
        raise Conflict(
            Finding(
                code="variable.unresolved",
                message=f"template variable `{self.name}` ({self.what}) has no value here",
                expected=f"one of: {asked}",
                found="none of them holds",
                next_step="add a choice for what this release does: see `ddpatch inventory`",
            )
        )


@dataclass(frozen=True, kw_only=True)
class AddFile:
    """Add ``path``, rendered from ``template``, a path below ``templates/`` (or ``folder``).

    ``variables`` are chosen by probes, ``context`` holds plain values. An unknown name in a
    template is an error, never an empty string.
    """

    path: str
    template: str
    folder: Path | None = None
    variables: tuple[Variable, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        if self.path in subject.tree:
            raise Conflict(
                Finding(
                    code="file.exists",
                    message=f"{self.path} is already there and is not ours",
                    site=Site(self.path, 1),
                    expected="no such file",
                    found=f"{subject.tree.files[self.path].size} bytes",
                    next_step="move it away, or take a snapshot of a clean install",
                )
            )
        values = {v.name: v.resolve(subject) for v in self.variables}
        try:
            text = render(self.template, {**self.context, **values}, self.folder)
        except jinja2.TemplateError as error:
            raise UsageError(
                f"template {self.template} cannot be rendered: {type(error).__name__} {error}",
                next_step="mend the template, or give it the variables that it asks for",
            ) from error
        data = text.encode()
        if self.path.endswith(".py"):
            self._must_parse(data)
        return (Splice(self.path, 0, 0, data),)

    def _must_parse(self, data: bytes) -> None:
        try:
            _ = Source(self.path, data).tree
        except Unreadable as error:
            raise Conflict(
                Finding(
                    code="file.syntax",
                    message=f"{self.path}, rendered from {self.template}, is not Python: "
                    f"{error.reason}",
                    site=Site(self.path, 1),
                    expected="a Python file",
                    found=error.reason,
                    next_step="mend the template, or the values that its variables have here",
                )
            ) from error

    def present(self, subject: Subject) -> bool:
        """See :class:`~patcher.edits.base.Edit`."""
        return self.path in subject.tree

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add file {self.path}"


@lru_cache(maxsize=8)
def _environment(folder: Path | None) -> jinja2.Environment:
    loader = (
        jinja2.FunctionLoader(_load) if folder is None else jinja2.FileSystemLoader(str(folder))
    )
    return jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python source, not HTML
    )


def _load(name: str) -> str | None:
    resource = files("templates").joinpath(name)
    return resource.read_text(encoding="utf-8") if resource.is_file() else None


def render(template: str, context: Mapping[str, Any], folder: Path | None = None) -> str:
    """Render a template below ``templates/``. Unknown variables raise ``jinja2.UndefinedError``."""
    return _environment(folder).get_template(template).render(**context)


def variables_from(path: Path) -> tuple[Variable, ...]:
    """Read variables from a TOML file of ``[[variable]]`` and ``[[variable.choice]]`` tables.

    A choice names ``file``, ``pattern`` and optionally ``scope``, and the ``value`` it stands for.
    Raises UsageError for a table that lacks one of them.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return tuple(
            Variable(
                row["name"],
                row["description"],
                tuple(
                    Choice(c["value"], Shows(c["file"], c["pattern"], c.get("scope")))
                    for c in row["choice"]
                ),
            )
            for row in document["variable"]
        )
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise UsageError(
            f"{path.name}: {error}",
            next_step="give every variable a name, a description and choices",
        ) from error
