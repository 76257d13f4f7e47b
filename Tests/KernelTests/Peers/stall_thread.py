"""Stops one thread of a process for a while, as a slow disk stops a writer, and lets it go on.

Usage: stall_thread.py PID NAME SECONDS

NAME is the thread's, as in /proc/PID/task/*/comm. Prints `stalled` when the thread stands still; the SECONDS begin then.
"""

import ctypes
import os
import sys
import time

PTRACE_DETACH = 17
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) < 0:
        number = ctypes.get_errno()
        sys.exit(f"ptrace({request:#x}): {os.strerror(number)}")


def find(process, name):
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/comm", encoding="utf-8") as comm:
            if comm.read().strip() == name:
                return int(thread)
    sys.exit(f"process {process} has no thread {name}")


def main():
    process, name, seconds = sys.argv[1:]
    thread = find(process, name)
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)
    print("stalled", flush=True)
    time.sleep(float(seconds))
    ptrace(PTRACE_DETACH, thread)


main()
