#!/usr/bin/python3
"""Hides an adapter that is still to come from a running program: its host is then one of another computer.

  hide_adapter.py PROCESS INDEX

Each Bluetooth socket of PROCESS gets a filter that lets no message of the management interface with this index through.
A message begins with code, index and length, 16 bits each, little-endian: BlueZ, doc/mgmt-api.txt. Prints how many
sockets there are.
"""

import ctypes
import os
import socket
import struct
import sys

PIDFD_GETFD = 438
SO_ATTACH_FILTER, SO_DOMAIN = 26, 39
LOAD_HALF, JUMP_EQUAL, RETURN = 0x28, 0x15, 0x06


def main():
    process, index = int(sys.argv[1]), int(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)
    # A filter loads in network byte order.
    index = struct.unpack(">H", struct.pack("<H", index))[0]
    steps = [(LOAD_HALF, 0, 0, 2), (JUMP_EQUAL, 0, 1, index), (RETURN, 0, 0, 0), (RETURN, 0, 0, 0xFFFF)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    handle = os.pidfd_open(process)
    count = 0
    for name in os.listdir(f"/proc/{process}/fd"):
        if not os.readlink(f"/proc/{process}/fd/{name}").startswith("socket:"):
            continue
        descriptor = libc.syscall(PIDFD_GETFD, handle, int(name), 0)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), f"descriptor {name} of {process}")
        # Said here, for a management socket has no address by which Python could find out.
        with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI, descriptor) as opened:
            if opened.getsockopt(socket.SOL_SOCKET, SO_DOMAIN) == socket.AF_BLUETOOTH:
                opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
                count += 1
    print(f"hid it from {count} sockets", flush=True)
    if not count:
        sys.exit(f"process {process} has no Bluetooth socket")


if __name__ == "__main__":
    main()
