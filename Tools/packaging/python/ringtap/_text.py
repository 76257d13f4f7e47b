"""Tables of text as arrays."""

from __future__ import annotations

import contextlib
import csv
import re
import stat
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, TextIO

from ._program import RingtapError, RingtapWarning

if TYPE_CHECKING:
    import numpy.typing as npt

# NumPy, which is imported where a table is read.
Loader = ModuleType

MISSING_INTEGER = -(1 << 63)
# Characters of a line; no recorder writes a longer one.
LINE_LIMIT = 1 << 16
# Length of the longest word in a table, "intermediate"; arrays of `--format npy` are as wide.
WORD = "<U12"

# The types that `--format npy` gives the columns of recorded tables: what may be missing is a float there, but for times.
# In the order in which they are looked up: table, column, type.
_TYPES = [
    (r".*", r"(\w+_)?time_ns|tick|missing_before|fit", "<i8"),
    (r"samples", r"\w+_counts", "<f4"),
    (r"ppg|spo2", r"(ppg|spo2)_counts", "<f4"),
    (r"ppg|spo2", r"(led|red)_(max|min|diff)_counts", "<u2"),
    (r"accelerometer", r"[xyz]_counts", "<i2"),
    (r"ppg", r"ppg[0-3]_counts|ambient_counts", "<i4"),
    (r"ecg", r"ecg_uv", "<i4"),
    (r"accelerometer|samples", r"[xyz]_g", "<f4"),
    (r"accelerometer", r"[xyz]_mg", "<f8"),
    (r"heart_rate", r"bpm|contact|energy_kj", "<f4"),
    (r"rr_intervals", r"rr_1024ths", "<u2"),
    (r"rr_intervals", r"rr_ms", "<f8"),
    (r"temperature", r"state", WORD),
    (r"temperature", r"quality|heart_rate_bpm", "<f4"),
    (r"temperature", r"temperature_celsius|skin_celsius|heat_strain_index", "<f8"),
    (r"cycling", r"cadence_rpm|wheel_rpm|wheel_revolutions", "<f8"),
    (r"cycling", r"crank_revolutions|\w+_event_1024ths", "<f4"),
    (r".*", r"channel\d+", "<f8"),
]
# By the end of a column's name.
_UNITS = {
    "ns": "ns", "counts": "counts", "g": "g", "mg": "mg", "uv": "uV", "bpm": "1/min", "rpm": "1/min", "kj": "kJ", "ms": "ms",
    "celsius": "Cel", "1024ths": "s/1024",
}


def type_of(table: str, column: str) -> Optional[str]:
    """The type of a column of a recorded table, as NumPy names it; None where it is another one's."""
    for tables, columns, found in _TYPES:
        if re.fullmatch(tables, table) and re.fullmatch(columns, column):
            return found
    return None


def unit_of(column: str) -> str:
    """The unit at the end of a column's name; empty if the name has no unit."""
    return _UNITS.get(column.rpartition("_")[2], "")


def check_regular(path: Path) -> Path:
    """That it is a regular file, or a link to one: a pipe would be waited for.

    :raises RingtapError: it is a pipe, a device, a socket or a directory.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise RingtapError(f"{path}: not a regular file")
    return path


@contextlib.contextmanager
def damage_of(path: Path) -> Iterator[None]:
    """Whatever NumPy and Python raise for a damaged file is a `RingtapError` that names it."""
    try:
        yield
    except RingtapError:
        raise
    except OSError as error:
        raise RingtapError(f"{path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise RingtapError(f"{path}: it claims more than there is memory for") from error
    except Exception as error:  # pylint: disable=broad-exception-caught
        raise RingtapError(f"{path}: damaged: {type(error).__name__}: {error}") from error


def read_text(path: Path, table: str, numpy: Loader) -> "Dict[str, npt.NDArray[Any]]":
    """The columns of a table, each number as exact as its text.

    A last line that is cut off, as a killed capture leaves it, is left out, and so are zero bytes, as a power cut leaves them, with
    all that follows.
    """
    arrays = {}
    with damage_of(path), open(check_regular(path), encoding="utf-8", newline="\n") as file:
        names = file.readline(LINE_LIMIT).rstrip("\r\n").split(",")
        if not all(names) or len(set(names)) != len(names):
            raise RingtapError(f"{path}: its first line has no names of columns")
        types = [type_of(table, name) for name in names]
        with warnings.catch_warnings():
            # NumPy before 2 reports an invalid integer by this warning.
            warnings.simplefilter("error", DeprecationWarning)
            warnings.filterwarnings("ignore", message=".*no data")
            rows = numpy.loadtxt(
                _Lines(file, path, types), delimiter=",", comments=None, quotechar='"', ndmin=1,
                dtype=[(f"f{place}", kind or object) for place, kind in enumerate(types)])
        for place, (name, kind) in enumerate(zip(names, types)):
            column = numpy.ascontiguousarray(rows[f"f{place}"])
            if kind is None:
                column = _guessed(column, numpy)
            column.flags.writeable = False
            arrays[name] = column
    return arrays


class _Lines:
    """Lines with something in each cell."""

    def __init__(self, file: TextIO, path: Path, types: List[Optional[str]]) -> None:
        self._file, self._path = file, path
        self._commas = len(types) - 1
        self._missing = [_missing(kind) for kind in types]

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(iter(lambda: self._file.readline(LINE_LIMIT), ""), 2):
            where = f"{self._path}, line {number}"
            if "\0" in line:
                warnings.warn(
                    f"{where}: it has zero bytes: the power failed before the disk had it; the rows before are good",
                    RingtapWarning, stacklevel=2)
                return
            if not line.endswith("\n"):
                if len(line) == LINE_LIMIT:
                    raise RingtapError(f"{where}: longer than {LINE_LIMIT} characters")
                warnings.warn(f"{where}: it is cut off; the rows before are good", RingtapWarning, stacklevel=2)
                return
            text = line.rstrip("\r\n")
            # Only words that people read are in quotation marks.
            cells = next(csv.reader([text])) if '"' in text else None
            commas = text.count(",") if cells is None else len(cells) - 1
            if commas != self._commas or not text:
                raise RingtapError(f"{self._path}, line {number}: not a row of {self._commas + 1} cells: {text[:300]!r}")
            if cells is not None or ",," in text or text[0] == "," or text[-1] == ",":
                filled = [cell or missing for cell, missing in zip(cells or text.split(","), self._missing)]
                text = ",".join(filled if cells is None else [_quoted(cell) for cell in filled])
            yield text


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _missing(kind: Optional[str]) -> str:
    if kind == "<i8":
        return str(MISSING_INTEGER)
    return "nan" if kind is not None and kind.startswith("<f") else ""


def _guessed(column: "npt.NDArray[Any]", numpy: Loader) -> "npt.NDArray[Any]":
    """Whole numbers, numbers, else words."""
    if not (column == "").any():
        try:
            return column.astype("<i8")
        except (ValueError, OverflowError):
            pass
    try:
        numbers: npt.NDArray[Any] = numpy.where(column == "", "nan", column).astype("<f8")
        return numbers
    except ValueError:
        return column.astype(str)
