"""The client's end of a session with the agent, over any link."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from patcher.model import DdpatchError, InstallFacts, Manifest, TargetError, UsageError
from patcher.push import client
from patcher.push.plan import PushPlan
from patcher.push.records import HistoryRow, PushResult, RollbackResult, TargetStatus
from patcher.targets.agent import frames
from patcher.targets.agent.frames import AgentError
from patcher.targets.base import Progress, Skipped, Snapshot, printable, quiet
from patcher.targets.errors import explain
from patcher.targets.program import new_nonce, program
from patcher.targets.received import ManifestReader, inflate, read_facts

_PIECE = 1 << 18


class Link(Protocol):
    """A started agent process: its standard streams, wherever it runs.

    ``recv`` returns no bytes at the end of the stream; ``send`` and ``recv`` raise ``OSError``
    (``TimeoutError`` among them) when the link fails.
    """

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""

    def recv(self, size: int) -> bytes:
        """Return between 1 and ``size`` bytes, or none at the end."""

    def finish(self) -> int:
        """Wait for the process to end and return its status, -1 when nobody knows it."""

    def errors(self) -> str:
        """Return what it has written to standard error (a bounded part)."""

    def close(self) -> None:
        """Give everything back; never raises for a link that is dead already."""


class _Reader:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._buffer = bytearray()
        self.frames = 0

    def more(self) -> None:
        piece = self._link.recv(_PIECE)
        if not piece:
            raise EOFError("the stream ended early")
        self._buffer += piece

    def skip_to(self, greeting: bytes) -> None:
        """Drop what a shell has printed before the greeting."""
        while greeting not in self._buffer:
            if len(self._buffer) > frames.NOISE_LIMIT + len(greeting):
                raise frames.FrameError(
                    f"no greeting in the first {frames.NOISE_LIMIT} bytes of output"
                )
            self.more()
        end = self._buffer.index(greeting)
        if end > frames.NOISE_LIMIT:
            raise frames.FrameError(f"{end} bytes of other output came first")
        del self._buffer[: end + len(greeting)]

    def noise(self) -> str:
        return printable(self._buffer[:2000].decode("utf-8", "replace"))

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self.more()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def frame(self) -> tuple[bytes, bytes]:
        kind, size = frames.parse_head(self.exactly(frames.HEAD_SIZE))
        payload = self.exactly(size)
        self.frames += kind != frames.END
        return kind, payload


class AgentSession:
    """A session with an agent; use it as a context manager.

    Raises TargetError when the link fails or the agent says something that is not the protocol,
    and what :func:`patcher.targets.errors.explain` says for the agent's own errors.
    """

    def __init__(
        self,
        link: Link,
        name: str,
        *,
        path: str = "",
        python: str = "python3",
        progress: Progress = quiet,
        squeeze: bool = False,
    ) -> None:
        self.name = name
        self._link = link
        self._path = path
        self._python = python
        self._progress = progress
        self._squeeze = squeeze
        self._reader = _Reader(link)
        self._facts: InstallFacts | None = None
        self._busy = False

    def __enter__(self) -> Self:
        nonce = new_nonce()
        try:
            self._link.send(program(nonce))
            self._reader.skip_to(frames.greeting(nonce))
            hello = self._json()
        except (EOFError, OSError, frames.FrameError) as error:
            failure = self._not_started(error)
            self._link.close()
            raise failure from error
        if hello.get("protocol") != frames.PROTOCOL:
            self._link.close()
            raise TargetError(
                f"{self.name}: the agent speaks protocol {hello.get('protocol')!r}, "
                f"expected {frames.PROTOCOL}",
                next_step="report this: the agent and its client come from one installation",
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and not self._busy:
                self._end()
        finally:
            self._link.close()

    def _end(self) -> None:
        """Say good-bye, and see that nothing was lost on the way."""
        try:
            self._link.send(frames.json_frame({"op": "bye"}))
            frame, payload = self._reader.frame()
        except (EOFError, OSError, frames.FrameError) as error:
            raise self._broken(error) from error
        told = json.loads(payload) if frame == frames.END else {}
        status = self._link.finish()
        if told.get("frames") != self._reader.frames or status != 0:
            raise self._broken(
                frames.FrameError(
                    f"the trailer says {told.get('frames')} frames and status {status}, "
                    f"expected {self._reader.frames} and 0"
                )
            )

    def _broken(self, error: Exception) -> TargetError:
        self._busy = True
        said = printable(self._link.errors())
        return TargetError(
            f"{self.name}: the connection was lost: {printable(str(error)) or type(error).__name__}"
            + (f"; the target said: {said}" if said else ""),
            next_step=f"run it again; `ddpatch status {self.name}` tells what a push has left",
        )

    def _not_started(self, error: Exception) -> DdpatchError:
        """Say why there is no agent, from what came instead of it."""
        status = self._link.finish() if isinstance(error, EOFError) else -1
        said = printable(self._link.errors()) or self._reader.noise()
        if "sudo:" in said:
            return TargetError(
                f"{self.name}: sudo refused: {said}",
                next_step="allow this user `sudo -n` for the interpreter, or connect as the owner",
            )
        if status in (9, 126, 127):
            return UsageError(
                f"{self.name}: {self._python} cannot run the agent: {said}",
                next_step="name the interpreter that runs SGLang: --python /path/to/python",
            )
        reason = "it ended" if isinstance(error, EOFError) else printable(str(error))
        return TargetError(
            f"{self.name}: the agent did not start: {reason} (status {status})"
            + (f"; the target said: {said}" if said else ""),
            next_step="check that this account may run commands there, and --python",
        )

    def _json(self) -> dict[str, Any]:
        kind, payload = self._reader.frame()
        value = json.loads(payload.decode("ascii")) if kind == frames.JSON else None
        if not isinstance(value, dict):
            raise frames.FrameError("expected an object")
        return value

    def call(
        self,
        request: Mapping[str, Any],
        contents: Sequence[tuple[str, bytes]] = (),
        on_rows: Callable[[list[Any]], None] | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its answer; raises AgentError for the agent's own errors."""
        for _ in self._exchange(request, contents, on_rows, on_data):
            pass
        return self._answer

    def _exchange(
        self,
        request: Mapping[str, Any],
        contents: Sequence[tuple[str, bytes]] = (),
        on_rows: Callable[[list[Any]], None] | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> Iterator[None]:
        """Run one request; pauses after each data frame so that a caller can hand it on."""
        if self._busy:
            raise TargetError(
                f"{self.name}: the session is broken or its last snapshot was not read to the end",
                next_step="open a new session",
            )
        self._busy = True
        try:
            self._link.send(frames.json_frame(dict(request)))
            for batch in _batches(contents):
                self._link.send(frames.frame(frames.DATA, frames.pack(batch)))
            while True:
                kind, payload = self._reader.frame()
                if kind == frames.DATA and on_data is not None:
                    on_data(payload)
                    yield
                    continue
                value = json.loads(payload.decode("ascii")) if kind == frames.JSON else None
                match value:
                    case {"progress": [str(stage), int(done), int(total)]}:
                        self._progress(stage, done, total or None)
                    case {"rows": list(rows)} if on_rows is not None:
                        on_rows(rows)
                    case {"ok": dict(answer)}:
                        self._answer = answer
                        break
                    case {"error": {"code": str(code), "message": str(message), **detail}}:
                        self._busy = False
                        raise AgentError(
                            code, printable(message), **{str(k): v for k, v in detail.items()}
                        )
                    case _:
                        raise frames.FrameError("an unexpected frame came")
        except (EOFError, OSError, ValueError, zlib.error, frames.FrameError) as error:
            raise self._broken(error) from error
        self._busy = False

    def facts(self) -> InstallFacts:
        """Ask what is installed (once for each session)."""
        if self._facts is None:
            try:
                told = self.call({"op": "facts", "path": self._path})
            except AgentError as error:
                raise explain(error, self.name) from error
            self._facts = read_facts(told, self.name)
        return self._facts

    def snapshot(self, known: Container[str]) -> Snapshot:
        """Take a manifest, and the contents whose sha256 (hex) is not in ``known``."""
        facts = self.facts()
        taker = ManifestReader(facts.distinfo)
        try:
            told = self.call(
                {"op": "manifest", "root": facts.root, "distinfo": facts.distinfo},
                on_rows=taker.take,
            )
            taker.finish(told)
        except AgentError as error:
            raise explain(error, self.name) from error
        except frames.FrameError as error:
            raise self._broken(error) from error
        sizes = {entry.sha256: entry.size for entry in taker.entries.values()}
        want = [sha for sha in sizes if sha not in known]
        return Snapshot(
            Manifest(facts, taker.entries),
            self._contents(want, sizes),
            len(want),
            tuple(Skipped(printable(p), printable(r)) for p, r in told["skipped"]),
            taker.mtimes,
        )

    def _contents(self, want: list[str], sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        if not want:
            return
        missing = set(want)
        total = sum(sizes[sha] for sha in want)
        done = 0
        items: list[tuple[str, bytes]] = []

        def take(payload: bytes) -> None:
            items.extend(frames.unpack(inflate(payload) if self._squeeze else payload))

        request = {"op": "fetch", "want": want, "zlib": self._squeeze}
        try:
            for _ in self._exchange(request, on_data=take):
                for sha, content in items:
                    if sha not in missing:
                        raise frames.FrameError("content came that was not asked for")
                    missing.remove(sha)
                    done += len(content)
                    yield sha, content
                items.clear()
                self._progress("fetch", done, total)
        except AgentError as error:
            raise explain(error, self.name) from error
        except frames.FrameError as error:
            raise self._broken(error) from error
        if missing:
            raise self._broken(frames.FrameError(f"{len(missing)} contents did not come"))

    def push(
        self, plan: PushPlan, *, dry_run: bool = False, allow_running: bool = False
    ) -> PushResult:
        """Bring the plan's files onto the target; see :func:`patcher.push.client.push`."""
        return client.push(self, self.facts(), plan, dry_run=dry_run, allow_running=allow_running)

    def rollback(
        self, *, keep: Sequence[str] = (), dry_run: bool = False, allow_running: bool = False
    ) -> RollbackResult:
        """Undo the newest push that stands; see :func:`patcher.push.client.rollback`."""
        return client.rollback(
            self, self.facts(), keep=keep, dry_run=dry_run, allow_running=allow_running
        )

    def status(self) -> TargetStatus:
        """Say what each file that was ever pushed is now."""
        return client.status(self, self.facts())

    def history(self) -> tuple[HistoryRow, ...]:
        """List pushes and rollbacks, oldest first."""
        return client.history(self, self.facts())


def _batches(contents: Sequence[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    size = 0
    for item in contents:
        batch.append(item)
        size += len(item[1])
        if size >= frames.PACK_SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
