#!/usr/bin/env python3
"""Receives with gatttool, and counts the lines that it prints: gatttool_client.py ring|source COUNT ADDRESS.

The processor time that counts is gatttool's: this script says its process number first.
"""

import os
import select
import subprocess
import sys
import time

from report import START, Count

# Value and configuration of what notifies, and where a ring takes commands: the handles of the emulation.
HANDLES = {"ring": (0x13, 0x10), "source": (None, None)}


def main():
    kind, wanted, address = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    configuration, command = HANDLES[kind]
    if configuration is None:
        configuration = int(sys.argv[4], 16)
    count = Count(kind, wanted)
    tool = subprocess.Popen(
        ["stdbuf", "-oL", "gatttool", "-b", address, "-I"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print("pid", tool.pid, flush=True)

    def say(line):
        tool.stdin.write((line + "\n").encode())
        tool.stdin.flush()

    say("connect")
    rest, state = b"", 0
    while not count.is_over:
        if not select.select([tool.stdout], [], [], 0.1)[0]:
            continue
        rest += os.read(tool.stdout.fileno(), 65536)
        *lines, rest = rest.split(b"\n")
        # Its prompts are not ended by a line end.
        if state == 0 and any(b"Connection successful" in line for line in lines + [rest]):
            state = 1
            say(f"char-write-req {configuration:04x} 0100")
        elif state == 1 and any(b"written successfully" in line for line in lines + [rest]):
            state = 2
            if command:
                say(f"char-write-req {command:04x} {START.hex()}")
        for line in lines:
            if b"Notification handle" in line:
                count.take(bytes.fromhex(line.split(b"value:")[1].split(b"\r")[0].decode().strip()))
    count.show()
    tool.kill()


main()
