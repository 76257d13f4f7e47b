"""Who advertises."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

from ._program import Process, misunderstood
from ._sources import Path, is_transport


@dataclass(frozen=True)
class Advertiser:
    """A device that advertises."""

    address: str
    #: `public` or `random`.
    address_type: str
    #: dBm.
    rssi: Optional[int]
    name: Optional[str]
    #: UUIDs.
    services: Tuple[str, ...]
    #: By the company's number.
    manufacturer_data: Mapping[int, bytes]
    #: By the service's UUID.
    service_data: Mapping[str, bytes]
    connectable: bool
    #: Of the latest report: nanoseconds since the Unix epoch.
    time: int
    #: dBm, as advertised.
    tx_power: Optional[int]
    appearance: Optional[int]
    #: The address behind one that changes, where its key is known.
    identity: Optional[str]


class Scan(Iterator[Advertiser]):
    """Advertisers when they are first seen, and again when more of them is known."""

    def __init__(self, process: Process) -> None:
        self._process = process
        #: What the scan counted where it lost something.
        self.report: Dict[str, Any] = {}

    @property
    def identifier(self) -> int:
        """The number of the program's process."""
        return self._process.identifier

    def __iter__(self) -> "Scan":
        return self

    def __next__(self) -> Advertiser:
        try:
            while True:
                line = self._process.next_object()
                if line is None:
                    break
                if line.get("event") is None:
                    return _advertiser(line)
                if line["event"] == "end":
                    self.report = line
        except BaseException:
            self.close()
            raise
        raise StopIteration

    def close(self) -> None:
        """Ends the scan."""
        self._process.close()

    def __enter__(self) -> "Scan":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()


def scan(
    duration: Optional[float] = 5, *, source: Optional[str] = None, name: Optional[str] = None, service: Optional[str] = None,
    program: Optional[Path] = None, arguments: Sequence[str] = (),
) -> Scan:
    """Who advertises: an iterator, which shows each when it is seen; `list(ringtap.scan())` waits for all.

    :param duration: seconds; None: until it is closed.
    :param source: a transport, such as `virtual:ring`, instead of this machine's adapter.
    :param name: only advertisers whose name matches this regular expression.
    :param service: only advertisers of this service UUID, such as `180d`.
    :param program: a path, instead of the program that `find_program` finds.
    :param arguments: more words for `ringtap scan`.
    :raises RingtapError: the program cannot be started; and while it is read: it failed.
    """
    words: List[str] = ["scan", "--json"]
    if source is not None:
        if not is_transport(source):
            raise ValueError(f"{source!r} is no transport, such as virtual:ring")
        words += ["--transport", source]
    for option, value in (("duration", duration), ("name", name), ("service", service)):
        if value is not None:
            words.append(f"--{option}={value}")
    return Scan(Process([*words, *arguments], program))


def _advertiser(line: Dict[str, Any]) -> Advertiser:
    try:
        found = Advertiser(
            address=line["address"], address_type=line["addressType"], rssi=line["rssi"], name=line["name"],
            services=tuple(line["services"]),
            manufacturer_data={int(key, 16): bytes.fromhex(data) for key, data in line["manufacturerData"].items()},
            service_data={key: bytes.fromhex(data) for key, data in line["serviceData"].items()},
            connectable=line["connectable"], time=int(line["timeNs"]), tx_power=line.get("txPower"),
            appearance=line.get("appearance"), identity=line.get("identityAddress"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise misunderstood(line) from error
    if not isinstance(found.address, str) or not isinstance(found.connectable, bool):
        raise misunderstood(line)
    return found
