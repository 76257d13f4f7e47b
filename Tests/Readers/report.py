#!/usr/bin/env python3
"""Reads the page of `ringtap report` as others would: its samples by a decoder of our own, and itself in a browser.

report.py samples PAGE DIR   whether the page has every number of the tables (CSV) in a capture's directory
report.py browse PAGE        opens it in a headless Chromium: no error, no request, all samples or their extremes in each plot,
                             zoomed by mouse, keys and buttons; --picture FILE keeps a picture, --dark and --phone are what it is on, --still leaves out
                             zooming

One JSON object on standard output; the exit status is 1 with a message for the first thing that differs.
"""

import base64
import csv
import glob
import html.parser
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

# By the table's name: CSV columns whose numbers the page has, in its order.
COLUMNS = {
    "accelerometer": ["x_g", "y_g", "z_g"],
    "ppg": ["ppg_counts", "led_max_counts", "led_min_counts", "led_diff_counts"],
    "spo2": ["spo2_counts", "red_max_counts", "red_min_counts", "red_diff_counts"],
    "ecg": ["ecg_uv"],
    "heart_rate": ["bpm", "contact", "energy_kj"],
    "rr_intervals": ["rr_ms"],
    "temperature": ["temperature_celsius", "skin_celsius", "quality", "heart_rate_bpm", "heat_strain_index"],
}


class Scripts(html.parser.HTMLParser):
    """Texts of the scripts that have an id, and addresses that a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.texts, self.addresses, self.open_id = {}, [], None

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.open_id = values.get("id") if tag == "script" else None
        if self.open_id:
            self.texts[self.open_id] = ""
        for name in ("src", "href"):
            if not values.get(name, "data:").startswith(("data:", "#")):
                self.addresses.append(values[name])

    def handle_endtag(self, tag):
        self.open_id = None

    def handle_data(self, data):
        if self.open_id:
            self.texts[self.open_id] += data


def unpack(octets, rows):
    """Columns of so many rows; None where a number is missing."""
    column, value, code, shift = [], 0, 0, 0
    for octet in octets:
        code |= (octet & 0x7F) << shift
        shift += 7
        if octet & 0x80:
            continue
        if code:
            value += (code - 1 >> 1) ^ -(code - 1 & 1)
        column.append(value if code else None)
        code = shift = 0
        if len(column) == rows:
            yield column
            column, value = [], 0
    assert not column and shift == 0, "octets are left over"


def read(path):
    """(the report, {(section, table): (times in ns since the epoch, columns)})"""
    scripts = Scripts()
    with open(path, encoding="utf-8") as file:
        scripts.feed(file.read())
    assert not scripts.addresses, f"the page would fetch {scripts.addresses}"
    report = json.loads(scripts.texts["report"])
    tables = {}
    for number, section in enumerate(report["sections"]):
        for index, table in enumerate(section["tables"]):
            octets = base64.b64decode(scripts.texts[f"data-{number}-{index}"], validate=True)
            times, *columns = unpack(octets, table["count"]) if table["count"] else [[]]
            start = int(section["startNs"]) + table["offsetNs"]
            scaled = [
                [None if value is None else value / column["divisor"] for value in values]
                for column, values in zip(table["columns"], columns)
            ]
            tables[number, table["name"]] = [start + time for time in times], scaled
    return report, tables


def ring_times(directory, name):
    """Times on the ring's own clock, as samples.csv has them; empty without that or for other tables."""
    path = directory + "/samples.csv"
    if name not in ("accelerometer", "ppg", "spo2") or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [int(row["fitted_time_ns"]) for row in csv.DictReader(file) if row[name + "_time_ns"]]


def samples(page, directory):
    _, tables = read(page)
    counts = {}
    for path in sorted(glob.glob(directory + "/*.csv")):
        name = os.path.basename(path)[:-4]
        if name not in COLUMNS:
            continue
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        times, columns = tables[0, name]
        assert len(times) == len(rows), f"{name}: {len(times)} rows of {len(rows)}"
        assert times == (ring_times(directory, name) or [int(row["time_ns"]) for row in rows]), f"{name}: other times"
        for key, values in zip(COLUMNS[name], columns, strict=True):
            for number, (row, value) in enumerate(zip(rows, values)):
                text = row[key]
                same = value is None if text == "" else value is not None and abs(value - float(text)) < 1e-6
                assert same, f"{name}, row {number}, {key}: {value} for '{text}'"
        counts[name] = len(rows)
    return {"rows": counts, "octets": os.path.getsize(page)}


class Browser:
    """A headless Chromium, told what to do over two pipes."""

    def __init__(self, width, height, scheme):
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self.output = os.pipe()
        self.input, theirs_out = os.pipe()

        def place():  # on 3 and 4, by way of numbers that are neither
            first, second = os.dup(theirs_in), os.dup(theirs_out)
            while first < 5 or second < 5:
                first, second = os.dup(first), os.dup(second)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.number, self.pending, self.events, self.session = 0, b"", [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def receive(self):
        while b"\0" not in self.pending:
            octets = os.read(self.input, 1 << 20)
            assert octets, "Chromium has gone"
            self.pending += octets
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def open(self, page):
        """Opens a file, or an address."""
        self.call("Page.navigate", url=page if "://" in page else "file://" + os.path.abspath(page))
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer}"
        return answer["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", **more)

    def drag(self, start, end, y):
        self.mouse("mouseMoved", start, y)
        self.mouse("mousePressed", start, y, clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", start + (end - start) * step / 5, y, buttons=1)
        self.mouse("mouseReleased", end, y, clickCount=1)

    def key(self, key, code=0):
        text = {"text": "\r"} if code == 13 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(image))

    def complaints(self):
        """Errors and requests of the page, its own file excepted."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(parameters)
            elif event["method"] == "Network.requestWillBeSent":
                address = parameters["request"]["url"]
                if not address.startswith("data:") and parameters.get("type") != "Document":
                    found.append(address)
        return found

    def close(self):
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        self.process.wait(20)
        self.folder.cleanup()


def check_views(browser, report, tables):
    """Whether each plot shows all of its samples, or of each stretch the smallest and largest.

    Returns how many samples the largest column of a plot stands for, plot by plot.
    """
    buckets = []
    for number, section in enumerate(report["sections"]):
        for place, chart in enumerate(section["charts"]):
            name = f"opened.timelines[{number}].charts[{place}]"
            view = browser.value(f"({{rows: {name}.rows, spans: {name}.spans, window: {name}.timeline.window}})")
            times, columns = tables[number, section["tables"][chart["table"]]["name"]]
            seconds = [(time - int(section["startNs"])) / 1e9 for time in times]
            shown = {}
            for (at, *values), (low, high) in zip(view["rows"], view["spans"]):
                shown.setdefault((low, high), []).append(values)
            covered = set()
            for (low, high), rows in shown.items():
                if low == high:  # a gap
                    assert all(value is None for row in rows for value in row), f"{chart['title']}: a line over a gap"
                    continue
                covered.update(range(low, high))
                for index, series in enumerate(chart["series"]):
                    numbers = [n for n in columns[series["column"]][low:high] if n is not None]
                    expected = {min(numbers), max(numbers)} if numbers else {None}
                    assert {row[index] for row in rows} == expected, f"{chart['title']}, rows {low} … {high}: {rows}"
                    # In the order in which they came.
                    came = sorted(expected, key=lambda n: numbers.index(n)) if numbers else [None]
                    assert rows[0][index] == came[0] and rows[-1][index] == came[-1], f"{chart['title']}: {rows}"
            inside = {row for row, time in enumerate(seconds) if view["window"][0] <= time <= view["window"][1]}
            assert inside <= covered, f"{chart['title']}: {len(inside - covered)} samples in view are not shown"
            buckets.append(max((high - low for low, high in view["spans"]), default=0))
    return buckets


def browse(page, *options):
    options = list(options)
    picture = options.pop(options.index("--picture") + 1) if "--picture" in options else None
    report, tables = read(page)
    size = (390, 844) if "--phone" in options else (1280, 900)
    browser = Browser(*size, "dark" if "--dark" in options else "light")
    try:
        browser.open(page)
        plots = browser.value("document.querySelectorAll('.chart canvas').length / 2")
        result = {"title": browser.value("document.title"), "plots": plots, "whole": check_views(browser, report, tables)}
        assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window"
        result["axes"] = browser.value(
            "opened.timelines.flatMap((each) => each.charts.map(({axis}) => "
            "({range: axis.range, outliers: axis.outliers.map((rows) => rows.length)})))")
        for axis in result["axes"]:  # as text, to the last bit
            axis["range"] = [repr(float(end)) for end in axis["range"]]
        check_summary(browser, report)
        result["problems"] = browser.value("[...document.querySelectorAll('.problems li')].map((item) => item.textContent)")
        if plots and "--still" not in options:
            zoom(browser, report, tables, result)
        if picture:
            browser.picture(picture)
        complaints = browser.complaints()
        assert not complaints, f"the page complains: {complaints}"
    finally:
        browser.close()
    return result


def check_summary(browser, report):
    """The figures stand above the plots, all else is folded; a key opens it, and so does printing."""
    for number, section in enumerate(report["sections"]):
        shown = browser.value(
            f"[...document.querySelectorAll('article')[{number}].querySelectorAll('.summary > div')].map((item) => "
            "[...item.children].map((child) => child.textContent.trim()))")
        expected = [
            [figure["name"], f"{figure['value']} {figure['unit']}".strip(), figure["detail"]] for figure in section["summary"]]
        assert [(item + [""])[:3] for item in shown] == expected, f"the summary is {shown}"
        assert [figure["name"] for figure in section["summary"]][-2:] == ["Lost", "Gaps"]
    count = "document.querySelectorAll('details').length"
    opened = "document.querySelectorAll('details[open]').length"
    if not browser.value(count):
        return
    assert browser.value(opened) == 0, "something is unfolded"
    browser.value("document.querySelector('details > summary').focus()")
    browser.key("Enter", 13)
    assert browser.value(opened) == 1, "the key Enter unfolds"
    browser.value("dispatchEvent(new Event('beforeprint'))")
    assert browser.value(f"{opened} === {count}"), "printing unfolds all"
    browser.value("dispatchEvent(new Event('afterprint'))")
    assert browser.value(opened) == 1, "then all is as before"
    browser.key("Enter", 13)
    assert browser.value(opened) == 0, "the key Enter folds"
    browser.value("document.activeElement.blur(); scrollTo(0, 0)")


def zoom(browser, report, tables, result):
    """By mouse, then by keys and buttons, and back."""
    window = "opened.timelines[0].window"
    whole = browser.value(window)
    browser.value("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    left, top, width, height = browser.value(
        "(({x, y, width, height}) => [x, y, width, height])(document.querySelector('.plot').getBoundingClientRect())")
    # The same place again and again: ever closer.
    for _ in range(2):
        browser.drag(left + width * 0.5, left + width * 0.6, top + height / 2)
    zoomed = browser.value(window)
    length = (zoomed[1] - zoomed[0]) / (whole[1] - whole[0])
    assert 0.005 < length < 0.02, f"two drags over a tenth show {length} of all"
    assert browser.value("opened.timelines[0].charts.every((chart) => String(chart.graph.xAxisRange()) === String(chart.timeline.window))")
    result["zoomed"] = check_views(browser, report, tables)
    browser.value("document.querySelector('.chart').focus()")
    browser.key("+")
    assert abs((browser.value(window)[1] - browser.value(window)[0]) / (zoomed[1] - zoomed[0]) - 0.5) < 1e-6, "the key + zooms"
    browser.key("ArrowRight")
    assert browser.value(window)[0] > zoomed[0], "the right arrow moves"
    browser.value("document.querySelector('.toolbar button[title=\"Show all\"]').click()")
    assert browser.value(window) == whole, "the button shows all"
    browser.drag(left + width * 0.5, left + width * 0.6, top + height / 2)
    for count in (1, 2):
        browser.mouse("mousePressed", left + width / 2, top + height / 2, clickCount=count)
        browser.mouse("mouseReleased", left + width / 2, top + height / 2, clickCount=count)
    assert browser.value(window) == whole, "a double click shows all"
    browser.mouse("mouseMoved", left + width / 2, top + height / 2)
    result["readout"] = browser.value("document.querySelector('.readout').textContent")
    assert result["readout"], "nothing is said of the place under the mouse"


def main():
    # Chromium must not hang a test.
    signal.alarm(100)
    command, *arguments = sys.argv[1:]
    try:
        print(json.dumps({"samples": samples, "browse": browse}[command](*arguments)))
    except AssertionError as error:
        sys.exit(f"{command}: {error}")


if __name__ == "__main__":
    main()
