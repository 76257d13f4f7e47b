"""Captures as arrays."""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, Union

from ._program import RingtapError
from ._text import Loader, check_regular, damage_of, read_text, unit_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas
    import xarray

SESSION, INDEX = "session.json", "columns.json"
# Octets of either.
DOCUMENT_LIMIT = 1 << 24
# The last one of `session.json` that this module knows. Format 1 has no number; its tables cannot be read.
FORMAT = 2
READ_ATTEMPTS, READ_SECONDS = 5, 0.02


class Table:
    """A table of a capture: `table["ppg_counts"]` and `table.ppg_counts` are a column, an array that cannot be written to.

    A time that is missing is NumPy's "not a time", as an integer the smallest; a number that is missing is NaN; a word is empty.
    """

    def __init__(self, name: str, arrays: "Dict[str, npt.NDArray[Any]]", units: Mapping[str, str]) -> None:
        self.name = name
        #: The names of the columns.
        self.columns: Tuple[str, ...] = tuple(arrays)
        #: By the names of columns, of those that have one: `ns`, `counts`, `g`, `1/min` …
        self.units: Dict[str, str] = {column: unit for column, unit in units.items() if unit}
        self._arrays = arrays

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values()))) if self._arrays else 0

    def __getitem__(self, column: str) -> "npt.NDArray[Any]":
        return self._arrays[column]

    def __getattr__(self, column: str) -> "npt.NDArray[Any]":
        # `copy` and `pickle` ask before there are arrays.
        if column != "_arrays" and column in self._arrays:
            return self._arrays[column]
        raise AttributeError(f"no column {column!r}")

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows: {', '.join(self.columns)})"

    @property
    def time(self) -> "npt.NDArray[np.datetime64]":
        """The first column as `datetime64[ns]`, in UTC."""
        first = self.columns[0] if self.columns else ""
        if self.units.get(first) != "ns":
            raise RingtapError(f"the first column of {self.name} is no time")
        return self._arrays[first].view("M8[ns]")

    def to_pandas(self) -> "pandas.DataFrame":
        """A frame whose index is `time`, and whose columns are the others. It needs pandas."""
        import pandas

        others = {column: self._arrays[column] for column in self.columns[1:]}
        frame: pandas.DataFrame = pandas.DataFrame(others, index=pandas.DatetimeIndex(self.time, name="time"))
        return frame

    def to_xarray(self) -> "xarray.Dataset":
        """A data set whose coordinate is `time`, and whose variables are the other columns, with their units. It needs xarray."""
        import xarray

        variables = {}
        for column in self.columns[1:]:
            unit = self.units.get(column)
            variables[column] = ("time", self._arrays[column], {"units": unit} if unit else {})
        return xarray.Dataset(variables, coords={"time": self.time})


class Capture:
    """A capture: `capture["ppg"]` is a table. It is read when it is first asked for, and arrays are mapped."""

    def __init__(self, directory: Union[str, "os.PathLike[str]"], *, within: bool = False) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise RingtapError(f"{self.directory}: there is no such directory")
        #: Contents of `session.json`; empty without this file.
        self.session: Dict[str, Any] = _session(self.directory / SESSION)
        #: The index of a capture in arrays; `None` for other captures.
        self._index: Optional[Dict[str, Any]] = _document(self.directory / INDEX)
        #: The names of the tables.
        self.tables: Tuple[str, ...] = ()
        self._read: Dict[str, Table] = {}
        #: Where several devices were recorded at once, the capture of each by its address; else this one itself.
        self.devices: Dict[str, Capture] = {}
        if self._index is not None:
            self.tables = tuple(_object(self._index, "tables", self.directory / INDEX))
        else:
            # A file that only looks like a table is rejected when it is read.
            self.tables = tuple(sorted(path.stem for path in _entries(self.directory) if path.suffix == ".csv"))
        if self.session or self.tables:
            self.devices = {self.address or self.directory.name: self}
        elif not within:
            self.devices = _members(self.directory)
        if not self.devices and not within:
            raise RingtapError(f"{self.directory}: no capture: it has neither {INDEX} nor tables")

    @property
    def address(self) -> Optional[str]:
        """Of the device."""
        device = self.session.get("device")
        found = device.get("address") if isinstance(device, dict) else None
        return found if isinstance(found, str) else None

    @property
    def lost(self) -> Dict[str, int]:
        """What is in no table, by where it was lost, as `session.json` and `ringtap` tell it: `kernelQueue`, `sampleQueue`,
        `packetLog`, `disk`, `cut`, `missing`, `late`, `unplaced`, `malformed`. Empty if that is not known: there is no
        `session.json`, or it has no end since the recording still runs or was broken off.

        A sensor that numbers nothing (`session["numbered"]` is false) may have sent more than this machine knows of.

        :raises RingtapError: `session.json` has something else than counts there.
        """
        if "lost" not in self.session or ("endedAtNs" in self.session and self.session["endedAtNs"] is None):
            return {}
        place = self.directory / SESSION
        counts = dict(_object(self.session, "lost", place))
        if "malformed" in self.session:
            counts.setdefault("malformed", self.session["malformed"])
        for name, count in counts.items():
            if type(count) is not int or count < 0:
                raise RingtapError(f"{place}: its lost.{name} is no count")
        return counts

    def __contains__(self, table: object) -> bool:
        return table in self.tables

    def __getitem__(self, table: str) -> Table:
        if table not in self._read:
            if table not in self.tables:
                several = "" if self.tables else ": several devices were recorded, see `devices`"
                raise KeyError(f"no table {table!r} in {self.directory}{several}")
            self._read[table] = self._load(table)
        return self._read[table]

    def __repr__(self) -> str:
        what = f"tables {', '.join(self.tables)}" if self.tables else f"devices {', '.join(self.devices)}"
        return f"Capture({str(self.directory)!r}: {what})"

    def _load(self, name: str) -> Table:
        numpy = _numpy()
        if self._index is None:
            path = self.directory / f"{name}.csv"
            arrays = read_text(path, name, numpy)
            self._check_format(path, list(arrays))
            return Table(name, arrays, {column: unit_of(column) for column in arrays})
        place = self.directory / INDEX
        columns = _object(_object(self._index, "tables", place), name, place).get("columns")
        if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
            raise RingtapError(f"{place}: it does not tell the columns of {name}")
        self._check_format(self.directory / name, [str(column.get("name")) for column in columns])
        arrays, units, rows = {}, {}, 0
        for column in columns:
            title, dtype = column.get("name"), column.get("dtype")
            if not isinstance(title, str) or "/" in title or "/" in name:
                raise RingtapError(f"{place}: {name} has an invalid column")
            array = self._map(self.directory / name / f"{title}.npy", dtype, numpy)
            # The first one, the time, tells how many rows are whole; others of a running capture may be ahead.
            rows = rows if arrays else len(array)
            if len(array) < rows:
                raise RingtapError(f"{self.directory / name}: {title} ends before the time does")
            arrays[title], units[title] = array[:rows], str(column.get("unit", ""))
        return Table(name, arrays, units)

    def _check_format(self, path: Path, columns: List[str]) -> None:
        """That it is no table of format 1, as `ringtap` finds it."""
        if "formatVersion" in self.session:
            return
        if columns[:2] in (["time_ns", "value_counts"], ["time_ns", "device_time_ns"]) or "ppg_value_counts" in columns:
            raise RingtapError(
                f"{path}: it has format 1, which no release wrote and this module cannot read: import the capture's packet log again")

    @staticmethod
    def _map(path: Path, dtype: object, numpy: Loader) -> "npt.NDArray[Any]":
        with damage_of(path):
            check_regular(path)
            with warnings.catch_warnings():
                # A head that was damaged may be Python that warns.
                warnings.simplefilter("ignore")
                array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, numpy.ndarray) or array.ndim != 1 or array.dtype.str != dtype:
            raise RingtapError(f"{path}: no column of {dtype}")
        # An array like any other, which is mapped all the same.
        column: npt.NDArray[Any] = array.view(numpy.ndarray)
        return column


def load(directory: Union[str, "os.PathLike[str]"]) -> Capture:
    """Loads a capture, of text or of arrays, also while it is recorded. Tables need NumPy.

    :raises RingtapError: there is none, or it is damaged.
    """
    return Capture(directory)


def _members(directory: Path) -> Dict[str, Capture]:
    """By address; by name where a device has two captures."""
    found: Dict[str, Capture] = {}
    for path in _entries(directory):
        if path.is_dir() and not path.name.startswith("."):
            capture = Capture(path, within=True)
            if capture.devices:
                address = capture.address or path.name
                found[path.name if address in found else address] = capture
    return found


def _entries(directory: Path) -> List[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise RingtapError(f"{directory}: {error.strerror}") from error


def _session(path: Path) -> Dict[str, Any]:
    """Read `session.json`; empty without this file."""
    found = _document(path)
    if found is None:
        return {}
    version = found.get("formatVersion", 1)
    if type(version) is not int or version < 1:
        raise RingtapError(f"{path}: its formatVersion is no number")
    if version > FORMAT:
        raise RingtapError(f"{path}: it has format {version}, and this module reads up to {FORMAT}: take a later one")
    return found


def _document(path: Path) -> Optional[Dict[str, Any]]:
    for attempt in range(READ_ATTEMPTS):
        try:
            with open(check_regular(path), "rb") as file:
                octets = file.read(DOCUMENT_LIMIT + 1)
            if len(octets) > DOCUMENT_LIMIT:
                raise RingtapError(f"{path}: more than {DOCUMENT_LIMIT} octets")
            found = json.loads(octets)
        except FileNotFoundError:
            if path.is_symlink():
                raise RingtapError(f"{path}: a link that leads nowhere") from None
            return None
        except OSError as error:
            raise RingtapError(f"{path}: {error.strerror}") from error
        except RecursionError as error:
            raise RingtapError(f"{path}: too deeply nested") from error
        except ValueError as error:
            # A recorder replaces it in place: in a moment it is whole.
            if attempt + 1 == READ_ATTEMPTS:
                raise RingtapError(f"{path}: {error}") from error
            time.sleep(READ_SECONDS)
            continue
        if isinstance(found, dict):
            return found
        break
    raise RingtapError(f"{path}: no JSON object")


def _object(document: Dict[str, Any], name: str, path: Path) -> Dict[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise RingtapError(f"{path}: it has no {name}")
    return found


def _numpy() -> Loader:
    try:
        import numpy
    except ImportError as error:
        raise RingtapError("the tables of a capture need NumPy: pip install numpy") from error
    return numpy
