"""Stands in for `ringtap`: does what FAKE in the environment says, a JSON object.

lines      printed at the start; objects as JSON, strings as they are
errors     lines for standard error
status     of the end
waits      true: until SIGINT comes; "deaf": SIGINT does nothing
after      lines that SIGINT lets it print
killed     a signal that it sends itself
floods     true: prints the last line over and over, and waits for nobody who reads
endless    true: prints one line that has no end
arguments  a file that is given the command line
"""

import json
import os
import signal
import sys
import time

plan = json.loads(os.environ["FAKE"])


def show(lines):
    for line in lines:
        print(line if isinstance(line, str) else json.dumps(line), flush=True)


interrupts = []
# Ignored if deaf; otherwise recorded, so that printing is not interrupted.
signal.signal(signal.SIGINT, signal.SIG_IGN if plan.get("waits") == "deaf" else lambda *_: interrupts.append(1))
if "arguments" in plan:
    with open(plan["arguments"], "w", encoding="utf-8") as file:
        json.dump(sys.argv[1:], file)
for line in plan.get("errors", []):
    print(line, file=sys.stderr, flush=True)
show(plan.get("lines", []))
if "killed" in plan:
    os.kill(os.getpid(), plan["killed"])
while plan.get("endless") and not interrupts:
    print("x" * 4096, end="", flush=True)
while plan.get("floods") and not interrupts:
    show(plan["lines"][-1:])
while plan.get("waits") and not interrupts:
    time.sleep(0.02)
if interrupts:
    show(plan.get("after", []))
sys.exit(plan.get("status", 0))
