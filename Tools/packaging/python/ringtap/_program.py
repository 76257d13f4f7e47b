"""Finds, starts and ends the program, and reads the lines of JSON that it prints."""

from __future__ import annotations

import collections
import importlib.metadata
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import IO, Any, Deque, Dict, Iterator, List, Optional, Sequence, Union

# The program ends within a second of a signal; then it is told again, and killed.
PATIENCE_SECONDS = 5.0
KEPT_LINES = 50
# Octets of a line that the program prints: far more than any that it does.
LINE_LIMIT = 1 << 20
# Recorded, but something that had come was lost; recorded, but not all published.
WARNING_STATUSES = (3, 4)

log = logging.getLogger("ringtap")


class RingtapError(Exception):
    """What went wrong, in the program's own words where it is the program that failed."""

    def __init__(self, message: str, status: Optional[int] = None, errors: str = "") -> None:
        super().__init__(message)
        #: The program's exit status; below 0 the signal that ended it; None where no program ended.
        self.status = status
        #: All that it said on standard error, up to 50 lines.
        self.errors = errors


class RingtapWarning(UserWarning):
    """All was done, but something was lost, or is left to do."""


class Event:
    """What a stream tells beside samples: `Gap`, `Missed`, `End`."""


def find_program(program: Union[str, "os.PathLike[str]", None] = None) -> str:
    """The path of the program: the one given, else that which came with this package, else `ringtap` in PATH, else what the
    environment variable RINGTAP says."""
    if program is not None:
        return os.fspath(program)
    for path in (_installed(), shutil.which("ringtap"), os.environ.get("RINGTAP")):
        if path:
            return path
    raise RingtapError(
        "no program ringtap: it is neither beside this package nor in PATH; install the wheel that contains it, or set "
        "RINGTAP to its path")


def _installed() -> Optional[str]:
    here = Path(__file__).parent
    candidates: List[Path] = []
    try:
        distribution = importlib.metadata.distribution("ringtap")
        # Not those of another copy than this one.
        if Path(str(distribution.locate_file("ringtap"))).resolve() == here.resolve():
            for file in distribution.files or []:
                if file.name == "ringtap":
                    candidates.append(Path(str(file.locate())))
            candidates.append(Path(sysconfig.get_path("scripts"), "ringtap"))
            # `pip install --target` moves it there, and its list of files does not tell.
            candidates.append(here.parent / "bin" / "ringtap")
    except importlib.metadata.PackageNotFoundError:
        pass
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.resolve())
    return None


class Process:
    """The program while it runs. It is ended when this is closed, or forgotten, and when Python ends."""

    def __init__(
        self, words: Sequence[str], program: Union[str, "os.PathLike[str]", None], *, lines: bool = True,
        keeps_files: bool = True,
    ) -> None:
        path = find_program(program)
        self._name = words[0]
        folder = None if keeps_files else _scratch_folder()
        try:
            self._child = subprocess.Popen(
                [os.path.abspath(path) if os.sep in path else path, *words], stdin=subprocess.DEVNULL, cwd=folder,
                stdout=subprocess.PIPE if lines else subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0,
                # A Ctrl-C is Python's: of two signals the second one ends the program at once.
                start_new_session=True)
        except OSError as error:
            _remove(folder)
            raise RingtapError(f"cannot run {path}: {error.strerror}") from error
        self._errors: Deque[str] = collections.deque(maxlen=KEPT_LINES)
        assert self._child.stderr is not None
        self._listener = threading.Thread(target=_listen, args=(self._child.stderr, self._errors), daemon=True)
        self._listener.start()
        self._asked = _Asked()
        self._end = weakref.finalize(self, _end, self._child, self._asked, folder)
        # Guards what follows.
        self._lock = threading.Lock()
        self._lines: Deque[bytes] = collections.deque()
        # Pieces of an unfinished line, and their size in bytes.
        self._rest: List[bytes] = []
        self._rest_size = 0

    @property
    def identifier(self) -> int:
        """The number of the process."""
        return self._child.pid

    def next_object(self) -> Optional[Dict[str, Any]]:
        """The next line that it prints; None when it has ended.

        :raises RingtapError: for a line that is no JSON object, and if it failed.
        """
        with self._lock:
            while not self._lines and self._fill():
                pass
            line = self._lines.popleft() if self._lines else None
        if line is not None:
            return parse(line)
        self.wait()
        return None

    def last_objects(self) -> Iterator[Dict[str, Any]]:
        """Ends it as Ctrl-C does, and has what it says until then."""
        deadline = self._asked.ask(self._child) + PATIENCE_SECONDS
        # Another thread that reads has the lines.
        if not self._lock.acquire(timeout=PATIENCE_SECONDS):
            return
        try:
            while self._child.stdout is not None and not self._child.stdout.closed and _is_readable(self._child.stdout, deadline):
                if not self._fill():
                    break
            lines = list(self._lines)
            self._lines.clear()
        finally:
            self._lock.release()
        for line in lines:
            try:
                yield parse(line)
            except RingtapError:
                # It may have been cut off by the end.
                log.info("not understood: %r", line)

    def wait(self) -> None:
        """Waits for its end.

        :raises RingtapError: if it failed.
        """
        status = self._child.wait()
        self._listener.join(PATIENCE_SECONDS)
        self._end()
        errors = list(self._errors)
        if status == 0 or self._asked.time is not None:
            return
        words = _own_words(errors)
        if status in WARNING_STATUSES:
            warnings.warn(words or f"exit status {status}", RingtapWarning, stacklevel=2)
            return
        how = f"exit status {status}" if status >= 0 else f"killed by {_signal_name(-status)}"
        raise RingtapError(f"{words} ({how})" if words else f"ringtap {self._name}: {how}", status, "\n".join(errors))

    def close(self) -> None:
        """Ends it as Ctrl-C does, and waits until it has ended."""
        self._end()

    def _fill(self) -> bool:
        """Reads more lines; whether there was anything."""
        if self._child.stdout is None or self._child.stdout.closed:
            return False
        piece = self._child.stdout.read(1 << 16)
        if not piece:
            if self._rest_size:
                self._lines.append(b"".join(self._rest))
                self._rest, self._rest_size = [], 0
            return False
        first, *others = piece.split(b"\n")
        if self._rest_size + len(first) > LINE_LIMIT:
            start = b"".join(self._rest)[:40]
            raise RingtapError(f"ringtap printed a line of more than {LINE_LIMIT} octets: {start.decode(errors='replace')!r} …")
        self._rest.append(first)
        self._rest_size += len(first)
        if others:
            self._lines.append(b"".join(self._rest))
            self._lines.extend(others[:-1])
            self._rest, self._rest_size = [others[-1]], len(others[-1])
        return True


def parse(line: bytes) -> Dict[str, Any]:
    """A line of the program's as an object."""
    try:
        found = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise misunderstood(line)
    return found


def misunderstood(line: object) -> RingtapError:
    """That a line is not what the documentation says; it is quoted."""
    if not isinstance(line, bytes):
        line = json.dumps(line).encode()
    text = line[:300].decode(errors="replace").rstrip("\n")
    return RingtapError(f"ringtap printed what this package does not understand: {text!r}")


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _listen(errors: IO[bytes], kept: Deque[str]) -> None:
    # A line without an end is read in pieces.
    for line in iter(lambda: errors.readline(LINE_LIMIT), b""):
        text = line.decode(errors="replace").rstrip()
        kept.append(text)
        log.info("%s", text)
    errors.close()


class _Asked:
    """When the program was asked to end, as Ctrl-C does: once, since a second signal ends it at once."""

    def __init__(self) -> None:
        self.time: Optional[float] = None

    def ask(self, child: "subprocess.Popen[bytes]") -> float:
        if self.time is None:
            self.time = time.monotonic()
            child.send_signal(signal.SIGINT)
        return self.time


def _is_readable(file: IO[bytes], deadline: float) -> bool:
    """Whether there is something, or the end, before the deadline."""
    left = deadline - time.monotonic()
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return left > 0 and bool(poll.poll(left * 1000))


def _scratch_folder() -> str:
    """Create a folder for a recording that the caller did not ask to keep; on a disk, because it may become long."""
    disk = os.environ.get("TMPDIR", "/var/tmp")
    return tempfile.mkdtemp(prefix="ringtap-", dir=disk if os.path.isdir(disk) else None)


def _remove(folder: Optional[str]) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _end(child: "subprocess.Popen[bytes]", asked: _Asked, folder: Optional[str]) -> None:
    """Ends it, be it by force. It starts no thread: Python may be at its end, too."""
    if child.poll() is None:
        deadline = asked.ask(child) + PATIENCE_SECONDS
        for number in (signal.SIGTERM, signal.SIGKILL):
            if _has_ended(child, deadline):
                break
            child.send_signal(number)
            deadline = time.monotonic() + PATIENCE_SECONDS
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
    _remove(folder)


def _has_ended(child: "subprocess.Popen[bytes]", deadline: float) -> bool:
    # Lest it waits for a reader.
    while child.stdout is not None and not child.stdout.closed and _is_readable(child.stdout, deadline):
        if not child.stdout.read(1 << 16):
            break
    try:
        child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _own_words(lines: Sequence[str]) -> str:
    for line in lines:
        if line.startswith("Error: "):
            return line[len("Error: "):]
    for line in reversed(lines):
        if line.startswith("ringtap: "):
            return line[len("ringtap: "):]
    return lines[-1] if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
