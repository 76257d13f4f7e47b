"""Ways to take a notification that comes alone from a socket, in C, beside ringtap's own: for Tools/Benchmarks/run."""

import json
import statistics
import subprocess

WAYS = {
    "recvmmsg": "2: epoll_wait and recvmmsg of 64",
    "recvmsg": "2: epoll_wait and recvmsg of one",
    "blocking": "1: recvmmsg of 64 that waits for the first",
    "one": "1: recvmsg that waits, the bare loop",
    "uring": "1: io_uring, multishot recvmsg",
    "uring-defer": "1: the same, deferred completions (Linux 6.1)",
    "spin": "all that a processor can make",
    "ringtap": "2: epoll_wait and recvmmsg of 64, to the subscriber",
}


def measure(tools, flat_count, rounds, latencies):
    """Processor time flat out, and the latency at a ring's highest rate."""
    names = [name for name in WAYS if name != "ringtap"]
    spent = {}
    for _ in range(rounds):
        for name in names:
            command = [tools.bare("feed"), flat_count, tools.bare("ways"), flat_count, name]
            told = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
            spent.setdefault(name, []).append(json.loads(told)["cpuNanosecondsPerNotification"])
    count = 10_000
    receivers = {name: [tools.bare("ways"), count, name, "--latency"] for name in names}
    receivers["ringtap"] = [tools.harness(), "socket", "--settling", 0, "--duration", 60, "--count", count]
    return {
        "flat out": {name: [min(each), statistics.median(each), max(each)] for name, each in spent.items()},
        "latency": latencies(tools, count, receivers, with_spread=True)}


def lines(data, machine, table, rounds):
    yield "## Ways to take a notification that comes alone, on this kernel"
    yield ""
    yield machine
    yield ""
    yield ("C programs and ringtap receive the same stream with the kernel's timestamps, in turn: latency from the timestamp at "
           f"2,083/s in µs, and ns of CPU for each notification at full speed; medians of {rounds} rounds (least … most).")
    yield ""
    bare = data["latency"]["one"]

    def cells(name, key):
        line = data["latency"][name]
        least, most = line["spread"][key]
        return f"{line[key]:.1f} ({least:.1f} … {most:.1f})", f"{line[key] / bare[key]:.2f}"

    yield from table(
        ["way", "system calls each", "p50", "to bare", "p99", "to bare", "ns of CPU flat out"],
        [(name, what, *cells(name, "p50"), *cells(name, "p99"),
          "{1:,.0f} ({0:,.0f} … {2:,.0f})".format(*data["flat out"][name]) if name in data["flat out"] else "–")
         for name, what in WAYS.items()])
    yield ("A blocking receive can be woken by its socket or by a signal. A signal between the check for other work and the call "
           "is lost, so a second thread would have to repeat the signal. Spinning is available (`--spin`) if a processor is "
           "free. ringtap uses epoll, which every kernel has.")
    yield ""
