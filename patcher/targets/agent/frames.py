"""Frames and the greeting: what both ends of a session agree on.

A frame is one type byte, a big-endian 32-bit length, and that many bytes.
"""

import hashlib
import json
import signal
import struct
from typing import Any, BinaryIO, Dict, List, Tuple

PROTOCOL = 1
"""Version of the exchange. The client sends the agent along, so it only guards against mix-ups."""

NOISE_LIMIT = 64 * 1024
"""How many bytes a login shell may print before the greeting."""

IDLE_S = 60
"""Seconds that the agent waits for one byte, in or out, before it gives up (and so unlocks)."""

MAX_FRAME = 80 * 1024 * 1024
"""Largest frame, in bytes: the largest file plus its header."""

JSON = b"J"
DATA = b"D"
END = b"E"

_HEAD = struct.Struct(">cI")
HEAD_SIZE = _HEAD.size

_PACK = struct.Struct(">32sQ")
PACK_SIZE = 1024 * 1024
"""Small files travel together in data frames of about this many bytes."""


class AgentError(Exception):
    """An expected failure on the target; ``code`` is stable, ``detail`` is for the client."""

    def __init__(self, code: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


class FrameError(Exception):
    """The other end sent something that is not a frame of this protocol."""


def greeting(nonce: str) -> bytes:
    """Return what the agent prints first: a hash, so that an echo of the input cannot fake it."""
    return hashlib.sha256(b"ddpatch agent " + nonce.encode("ascii")).hexdigest().encode("ascii")


def frame(kind: bytes, payload: bytes) -> bytes:
    """Return one frame as bytes."""
    return _HEAD.pack(kind, len(payload)) + payload


def json_frame(value: Any) -> bytes:
    """Return a JSON frame; file names that are not UTF-8 survive as surrogates."""
    return frame(JSON, json.dumps(value, separators=(",", ":")).encode("ascii"))


def parse_head(head: bytes) -> Tuple[bytes, int]:
    """Return type and length of a frame, or raise :class:`FrameError`."""
    kind, size = _HEAD.unpack(head)
    if kind not in (JSON, DATA, END) or size > MAX_FRAME:
        raise FrameError(f"not a frame: type {kind!r}, length {size}")
    return kind, size


def pack(items: List[Tuple[str, bytes]]) -> bytes:
    """Join (sha256 hex, content) pairs into the payload of one data frame."""
    out = bytearray()
    for sha, content in items:
        out += _PACK.pack(bytes.fromhex(sha), len(content))
        out += content
    return bytes(out)


def unpack(payload: bytes) -> List[Tuple[str, bytes]]:
    """Split the payload of a data frame; contents are checked against their sha256."""
    items = []
    at = 0
    while at < len(payload):
        if at + _PACK.size > len(payload):
            raise FrameError("a pack ends inside a header")
        digest, size = _PACK.unpack_from(payload, at)
        at += _PACK.size
        content = payload[at : at + size]
        if len(content) != size:
            raise FrameError("a pack ends inside a file")
        if hashlib.sha256(content).digest() != digest:
            raise FrameError("content does not have the sha256 it is announced with")
        items.append((digest.hex(), content))
        at += size
    return items


def _expired(_signal: int, _stack: Any) -> None:
    raise TimeoutError(f"no byte moved for {IDLE_S} s")


class Channel:
    """The agent's end: frames over two binary streams, with an alarm around each wait.

    The alarm (``alarm(2)``) runs only while a read or a write blocks, so it can never interrupt
    a commit, and it is set anew for each piece, so a slow link is not an idle one.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO, idle: int = IDLE_S) -> None:
        self._source = source
        self._sink = sink
        self._idle = idle
        self.sent = 0
        signal.signal(signal.SIGALRM, _expired)

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            signal.alarm(self._idle)
            part = self._source.read1(min(size, 65536))  # type: ignore[attr-defined]
            signal.alarm(0)
            if not part:
                raise EOFError("the client went away")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        for at in range(0, len(view), 65536):
            signal.alarm(self._idle)
            self._sink.write(view[at : at + 65536])
            self._sink.flush()
            signal.alarm(0)

    def receive(self) -> Tuple[bytes, bytes]:
        """Wait for one frame."""
        kind, size = parse_head(self._read(HEAD_SIZE))
        return kind, self._read(size)

    def request(self) -> Dict[str, Any]:
        """Wait for a JSON frame that holds an object."""
        kind, payload = self.receive()
        if kind != JSON:
            raise FrameError("expected a request")
        value = json.loads(payload.decode("ascii"))
        if not isinstance(value, dict):
            raise FrameError("a request is an object")
        return value

    def contents(self) -> List[Tuple[str, bytes]]:
        """Wait for a data frame and split it."""
        kind, payload = self.receive()
        if kind != DATA:
            raise FrameError("expected data")
        return unpack(payload)

    def raw(self, data: bytes) -> None:
        """Write bytes that are no frame: the greeting."""
        self._write(data)

    def send(self, value: Any) -> None:
        """Send one JSON frame."""
        self._write(json_frame(value))
        self.sent += 1

    def send_data(self, payload: bytes) -> None:
        """Send one data frame."""
        self._write(frame(DATA, payload))
        self.sent += 1

    def progress(self, stage: str, done: int, total: int) -> None:
        """Tell the client how far a long step is."""
        self.send({"progress": [stage, done, total]})

    def end(self) -> None:
        """Send the trailer: how many frames went before it."""
        self._write(frame(END, json.dumps({"frames": self.sent}).encode("ascii")))
