"""Samples as they come."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from ._program import Event, Process, misunderstood
from ._sources import Kinds, Path, capture_words

Value = Union[int, float, str, None]

_ABSENT = object()
_TIME = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True)
class Column:
    """A column of a table, with its NumPy type and its unit; the unit is empty if the column has no unit."""

    name: str
    dtype: str
    unit: str


class Sample:
    """A row of a table. `sample["ppg_counts"]` and `sample.ppg_counts` are the value of a column: None where it is missing."""

    __slots__ = ("device", "table", "time", "values", "_columns")

    def __init__(self, device: str, table: str, time: int, values: Dict[str, Value], columns: Mapping[str, Column]) -> None:
        #: The sensor's address.
        self.device = device
        self.table = table
        #: Nanoseconds since the Unix epoch.
        self.time = time
        #: By the names of columns; times are whole numbers of nanoseconds.
        self.values = values
        self._columns = columns

    def __getitem__(self, column: str) -> Value:
        return self.values[column]

    def __getattr__(self, column: str) -> Value:
        # `copy` and `pickle` ask before there are values.
        if column != "values" and column in self.values:
            return self.values[column]
        raise AttributeError(f"no column {column!r}")

    def unit(self, column: str) -> str:
        """The unit of a column, such as `counts`; empty if the column has no unit."""
        return self._columns[column].unit

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"Sample({self.device} {self.table}: {values})"


@dataclass(frozen=True)
class Gap(Event):
    """A link was lost, or is back."""

    device: str
    #: `lost` or `back`.
    state: str
    #: Of a link that was lost.
    cause: Optional[str]
    #: Nanoseconds since the Unix epoch.
    time: Optional[int] = None


@dataclass(frozen=True)
class Missed(Event):
    """So many lines were left out, since they came faster than they were read. What is recorded has them."""

    lines: int


@dataclass(frozen=True)
class End(Event):
    """A device's stream has ended: why, how many rows there were, and how many were lost."""

    device: str
    reason: str
    rows: int
    lost: int


class _Table:
    """What was told of a table before its samples."""

    def __init__(self, line: Dict[str, Any]) -> None:
        columns: List[Column] = []
        for column in _member(line, "columns", list):
            if not isinstance(column, dict):
                raise misunderstood(line)
            unit = column.get("unit", "")
            if not isinstance(unit, str):
                raise misunderstood(line)
            columns.append(Column(_member(column, "name", str), _member(column, "dtype", str), unit))
        self.columns = {column.name: column for column in columns}
        self._kinds = [(column.name, _kind(column)) for column in columns]
        # Of several times the first is the row's.
        self._time = next((column.name for column in columns if _kind(column) == "time"), "")
        if not self._time:
            raise misunderstood(line)

    def sample(self, line: Dict[str, Any], device: str, table: str) -> Sample:
        values: Dict[str, Value] = {}
        for name, kind in self._kinds:
            value = line.get(name, _ABSENT)
            if value is not None:
                if kind == "time":
                    if not isinstance(value, str) or not _TIME.fullmatch(value):
                        raise misunderstood(line)
                    value = int(value)
                elif kind == "word":
                    if not isinstance(value, str):
                        raise misunderstood(line)
                elif type(value) is not int and (kind == "whole" or type(value) is not float):
                    raise misunderstood(line)
            values[name] = value
        time = values[self._time]
        if not isinstance(time, int):
            raise misunderstood(line)
        return Sample(device, table, time, values, self.columns)


class Stream(Iterator[Sample]):
    """Samples as they come, until the program ends. Leave it by `with`, or by `close`: then the sensor is told to stop."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tables: Dict[Tuple[str, str], _Table] = {}
        #: Lines that were left out so far, since they came faster than they were read.
        self.missed = 0
        #: Lost links, and those that are back, so far.
        self.gaps: List[Gap] = []
        #: By the address of the device, of those that have ended.
        self.ends: Dict[str, End] = {}

    @property
    def identifier(self) -> int:
        """The number of the program's process."""
        return self._process.identifier

    @property
    def columns(self) -> Dict[Tuple[str, str], Tuple[Column, ...]]:
        """By device and table, of those that were told so far."""
        return {key: tuple(table.columns.values()) for key, table in self._tables.items()}

    def events(self) -> Iterator[Union[Sample, Event]]:
        """Samples, and between them what else is told: gaps, missed lines, ends."""
        while True:
            found = self._next()
            if found is None:
                return
            yield found

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Sample:
        while True:
            found = self._next()
            if found is None:
                raise StopIteration
            if isinstance(found, Sample):
                return found

    def close(self) -> None:
        """Ends the program as Ctrl-C does: the sensor is told to stop, and files are finished. What else it says is in `gaps`,
        `missed` and `ends`."""
        try:
            for line in self._process.last_objects():
                if "stream" in line:
                    self._take(line)
        finally:
            self._process.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    def _next(self) -> Union[Sample, Event, None]:
        """None at the end."""
        try:
            while True:
                line = self._process.next_object()
                found = None if line is None else self._take(line)
                if line is None or found is not None:
                    return found
        except BaseException:
            # Ctrl-C in a notebook too, which keeps alive what an error has seen.
            self._process.close()
            raise

    def _take(self, line: Dict[str, Any]) -> Union[Sample, Event, None]:
        what = line.get("stream")
        if what is None:
            device, name = _member(line, "device", str), _member(line, "table", str)
            table = self._tables.get((device, name))
            if table is None:
                raise misunderstood(line)
            return table.sample(line, device, name)
        if what == "table":
            self._tables[_member(line, "device", str), _member(line, "table", str)] = _Table(line)
        elif what == "gap":
            cause = line.get("cause")
            time = line.get("time_ns")
            if not isinstance(time, str) or not _TIME.fullmatch(time):
                time = None
            gap = Gap(
                _member(line, "device", str), _member(line, "state", str), None if cause is None else str(cause),
                None if time is None else int(time))
            self.gaps.append(gap)
            return gap
        elif what == "missed":
            missed = Missed(_member(line, "lines", int))
            self.missed += missed.lines
            return missed
        elif what == "end":
            end = End(
                _member(line, "device", str), _member(line, "reason", str), _member(line, "rows", int),
                _member(line, "lost", int))
            self.ends[end.device] = end
            return end
        elif not isinstance(what, str):
            raise misunderstood(line)
        # Lines of later programs are skipped.
        return None


def stream(
    source: Optional[str] = None, *, kind: Kinds = "ring", count: Optional[int] = None, duration: Optional[float] = None,
    output: Optional[Path] = None, rows: str = "tables", program: Optional[Path] = None, arguments: Sequence[str] = (),
) -> Stream:
    """Samples of a sensor as they come.

    >>> with ringtap.stream("70:CB:0D:00:A1:B2", duration=60) as samples:
    ...     for sample in samples:
    ...         print(sample.time, sample.values)

    :param source: an address; a name as the sensor advertises it; a transport, such as `virtual:ring` (an
        emulated one) or `replay:FILE`; the first of its kind in range if None.
    :param kind: `ring`, `heart-rate`, `thermometer`, `cycling`, `polar`; or several of these, each also as `KIND@ADDRESS`.
    :param count: samples after which it ends, over all streams of a sensor.
    :param duration: seconds after which it ends.
    :param output: a directory to record into meanwhile, which must not be there; if None nothing is kept.
    :param rows: of a ring, `tables` (a row per stream, as it arrives), `ticks` (the table `samples`: one row per tick of its
        clock, up to 8 s later) or `all`.
    :param program: a path, instead of the program that `find_program` finds.
    :param arguments: more words for `ringtap capture`, such as `["--adapter", "hci1"]`. Paths in them must be absolute where
        there is no `output`: the program runs in a folder of its own then.
    :raises RingtapError: the program cannot be started; and while it is read: it failed.
    """
    words = capture_words(source, kind, count, duration, output, ["--to", "-", *([] if rows == "tables" else ["--rows", rows]), *arguments])
    return Stream(Process(words, program, keeps_files=output is not None))


def _member(line: Dict[str, Any], name: str, kind: type) -> Any:
    found = line.get(name)
    if type(found) is not kind:
        raise misunderstood(line)
    return found


def _kind(column: Column) -> str:
    if column.unit == "ns" and column.dtype == "<i8":
        return "time"
    if column.dtype.startswith("<U"):
        return "word"
    return "number" if column.dtype.startswith("<f") else "whole"
