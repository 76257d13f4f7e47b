"""What to record from, as words of the command line."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Sequence, Union

from ._capture import Capture, load
from ._program import Process

Path = Union[str, "os.PathLike[str]"]
Kinds = Union[str, Sequence[str]]

_ADDRESS = re.compile(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}")
# Values of --transport.
_TRANSPORT = re.compile(r"(?:virtual|replay|hci-socket|serial|tcp-client|tcp-server|unix|pty):")


def is_transport(source: str) -> bool:
    """Whether it is a way to a controller instead of a device."""
    return _TRANSPORT.match(source) is not None


def _absolute(transport: str) -> str:
    """Whose file is the same in whichever folder the program runs."""
    scheme, _, rest = transport.partition(":")
    if scheme not in ("replay", "unix"):
        return transport
    path, *options = rest.split(",") if scheme == "replay" else [rest]
    return ",".join([f"{scheme}:{os.path.abspath(path)}", *options])


def capture_words(
    source: Optional[str], kind: Kinds, count: Optional[int], duration: Optional[float], output: Optional[Path],
    arguments: Sequence[str],
) -> List[str]:
    """The command line of `ringtap capture`."""
    kinds = [kind] if isinstance(kind, str) else list(kind)
    words = ["capture"]
    if source is not None and is_transport(source):
        words += ["--transport", _absolute(source)]
    elif source is not None and len(kinds) != 1:
        raise ValueError("a source is one device: with several kinds, give their addresses as KIND@ADDRESS")
    elif source is not None and _ADDRESS.fullmatch(source):
        kinds = [f"{kinds[0]}@{source}"]
    elif source is not None:
        words += [f"--name={source}"]
    if count is not None:
        words += [f"--count={count}"]
    if duration is not None:
        words += [f"--duration={duration}"]
    if output is not None:
        words.append(f"--output={os.fspath(output)}")
    return [*words, *arguments, *kinds]


def record(
    source: Optional[str], output: Path, *, kind: Kinds = "ring", count: Optional[int] = None,
    duration: Optional[float] = None, format: str = "csv", program: Optional[Path] = None, arguments: Sequence[str] = (),
) -> Capture:
    """Records a capture, and loads it when it has ended. Ctrl-C ends it well, and is raised then: what came is there.

    :param source: what `stream` takes.
    :param output: the directory of the capture, which must not be there.
    :param kind: what `stream` takes.
    :param count: samples after which it ends, over all streams.
    :param duration: seconds after which it ends.
    :param format: `csv`, or `npy`: a NumPy array for each column, which `load` maps.
    :param program: a path, instead of the program that `find_program` finds.
    :param arguments: more words for `ringtap capture`.
    :raises RingtapError: it failed, or ended before what was asked for. Where something that had come was lost, that is a
        `RingtapWarning`.
    """
    words = capture_words(source, kind, count, duration, output, [f"--format={format}", *arguments])
    process = Process(words, program, lines=False)
    try:
        process.wait()
    finally:
        process.close()
    return load(output)
