"""Bluetooth LE sensors for Python, by the program `ringtap` that comes with this package.

>>> import ringtap
>>> for sample in ringtap.stream("virtual:ring"):
...     print(sample)

`stream` has samples as they come, `record` makes a capture, `load` has its tables as arrays (NumPy is needed for that, and
for nothing else), `scan` tells who advertises.
"""

from ._capture import Capture, Table, load
from ._program import Event, RingtapError, RingtapWarning, find_program
from ._scan import Advertiser, Scan, scan
from ._sources import record
from ._stream import Column, End, Gap, Missed, Sample, Stream, stream

__all__ = [
    "Advertiser", "Capture", "Column", "End", "Event", "Gap", "Missed", "RingtapError", "RingtapWarning", "Sample", "Scan",
    "Stream", "Table", "find_program", "load", "record", "scan", "stream",
]
