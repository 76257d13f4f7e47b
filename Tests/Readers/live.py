#!/usr/bin/env python3
"""Reads the WebSocket of `ringtap capture --to ws:`, as the library websockets and a browser do.

live.py lines URL [ORIGIN]     all messages until the end; says "ready" on standard error, and waits until something listens
live.py write URL              sends a message: how the connection ends
live.py browse URL [OPTIONS]   opens the page in a headless Chromium: no error, no other request, samples arrive in order and are plotted.
                               --picture FILE keeps a picture, --dark and --phone are what it is on; --samples N waits for so many; --stall
                               SECONDS keeps the page from reading first

One JSON object on standard output; the exit status is 1 with a message for the first thing that differs.
"""

import json
import signal
import sys
import time

from report import Browser

# Notes when each message arrived, before the page takes it.
WATCH = """
(() => {
  const seen = (window.seen = { order: [], delays: [], notices: [] });
  const take = live.take.bind(live);
  live.take = (text) => {
    const now = performance.timeOrigin + performance.now();
    const line = JSON.parse(text);
    if (line.stream === undefined) {
      seen.order.push([line.table, line.time_ns ?? line.fitted_time_ns]);
      // The kernel's time, which a ring's ticks do not have.
      const received = line.frame_time_ns ?? line.time_ns;
      if (received !== undefined) seen.delays.push(now - Number(received) / 1e6);
    } else {
      seen.notices.push(line);
    }
    take(text);
  };
})()
"""

# Pixels of each shown plot in the colour of its first series.
INK = """
live && [...live.devices.values()].flatMap((device) => [...device.tables.values()].flatMap((table) => table.charts.filter((chart) => !chart.element.hidden).map((chart) => {
  const data = chart.canvas.getContext("2d").getImageData(0, 0, chart.canvas.width, chart.canvas.height).data;
  const wanted = getComputedStyle(document.documentElement).getPropertyValue("--series-0").trim();
  const [red, green, blue] = [1, 3, 5].map((place) => parseInt(wanted.slice(place, place + 2), 16));
  let count = 0;
  for (let place = 0; place < data.length; place += 4) {
    if (data[place + 3] > 200 && Math.abs(data[place] - red) + Math.abs(data[place + 1] - green) + Math.abs(data[place + 2] - blue) < 24) count += 1;
  }
  return count;
})))
"""


def lines(url, origin=None):
    from websockets.exceptions import ConnectionClosed, InvalidStatus
    from websockets.sync.client import connect

    print("ready", file=sys.stderr, flush=True)
    client = None
    while not client:
        try:
            client = connect(url, origin=origin, proxy=None)
        except ConnectionRefusedError:
            time.sleep(0.01)
        except InvalidStatus as refusal:
            return {"status": refusal.response.status_code}
    messages = []
    with client:
        pong = client.ping(b"here")
        try:
            while True:
                message = client.recv()
                assert isinstance(message, str), "a binary message"
                messages.append(message)
        except ConnectionClosed as end:
            return {"lines": messages, "pong": pong.wait(0), "code": end.rcvd.code, "reason": end.rcvd.reason}


def write(url):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    with connect(url, proxy=None) as client:
        client.send("hello")
        try:
            while True:
                client.recv()
        except ConnectionClosed as end:
            return {"code": end.rcvd.code, "reason": end.rcvd.reason}


def wait(browser, expression, seconds=60):
    deadline = time.monotonic() + seconds
    while not (value := browser.value(expression)):
        assert time.monotonic() < deadline, f"the page waits for {expression}"
        time.sleep(0.05)
    return value


def ordered(order):
    """Whether the times of each table increase."""
    last = {}
    for table, time_ns in order:
        if last.get(table, -1) > int(time_ns):
            return False
        last[table] = int(time_ns)
    return True


def browse(url, *options):
    options = list(options)

    def option(name):
        return options.pop(options.index(name) + 1) if name in options else None

    picture, samples, stall = option("--picture"), int(option("--samples") or 100), float(option("--stall") or 0)
    size = (390, 844) if "--phone" in options else (1280, 900)
    browser = Browser(*size, "dark" if "--dark" in options else "light")
    try:
        browser.open(url)
        # The load that was waited for may be that of the empty page before.
        wait(browser, "typeof live === 'object'")
        browser.value(WATCH)
        if stall:
            # The page reads nothing meanwhile, so that its buffers and those of the sender fill up.
            browser.value(f"for (const end = performance.now() + {stall * 1000}; performance.now() < end; );")
            wait(browser, "live.missed > 0")
        wait(browser, f"seen.order.length >= {samples}")
        wait(browser, "live.figures.Samples.textContent.match(/[1-9]/)")
        # After a stall, the samples may be older than what the plots show.
        inked = "true" if stall else "ink.every((count) => count > 0)"
        ink = wait(browser, f"(() => {{ const ink = {INK}; return ink.length > 0 && {inked} && ink; }})()")
        assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window"
        seen = browser.value("seen")
        assert ordered(seen["order"]), "samples are out of order"
        delays = sorted(seen["delays"])
        result = {
            "state": browser.value("live.figures.Connection.textContent"), "title": browser.value("document.querySelector('h2').textContent"),
            "plots": len(ink), "samples": len(seen["order"]), "missed": browser.value("live.missed"),
            "missedText": browser.value("live.figures.Missed.textContent"), "tables": sorted({table for table, _ in seen["order"]}),
            "delay50": delays[len(delays) // 2], "delay99": delays[len(delays) * 99 // 100], "delayMax": delays[-1],
        }
        if picture:
            time.sleep(float(option("--settle") or 0))
            browser.picture(picture)
        browser.value("live.windowButtons[0].click()")
        browser.value("[...document.querySelectorAll('.series[aria-pressed=false]')].forEach((button) => button.click())")
        assert not browser.value("document.querySelector('.series[aria-pressed=false]')"), "a series stays hidden"
        browser.value("live.pauseButton.click()")
        paused = browser.value("live.edge()")
        assert browser.value("live.edge()") == paused, "a pause stops the plots"
        browser.value("live.pauseButton.click()")
        wait(browser, f"live.edge() > {paused}")
        # The browser's advice about reading pixels is for this script.
        complaints = [each for each in browser.complaints() if "willReadFrequently" not in str(each)]
        assert not complaints, f"the page complains: {complaints}"
        if "--end" in options:
            result["ended"] = wait(browser, "live.figures.Connection.textContent === 'recording ended' && seen.notices.at(-1)")
    finally:
        browser.close()
    return result


def main():
    # Chromium must not hang a test.
    signal.alarm(150)
    command, *arguments = sys.argv[1:]
    try:
        print(json.dumps({"lines": lines, "write": write, "browse": browse}[command](*arguments)))
    except AssertionError as error:
        sys.exit(f"{command}: {error}")


main()
