#!/usr/bin/python3
"""Replaces the keys that the kernel holds for an adapter: all that it had are gone.

  kernel_keys.py INDEX [ADDRESS KEY]

With an address of LE (a static random one) and a key of 32 hexadecimal digits the kernel gets both as a long-term key of
Secure Connections and as an identity resolving key; without them it has none. BlueZ, doc/mgmt-api.txt, 0x0013 and 0x0030.
Needs Debian's Python, whose sockets know Bluetooth.
"""

import ctypes
import os
import socket
import struct
import sys

CONTROL, NO_DEVICE = 3, 0xFFFF


def open_control():
    control = socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI)
    # Python's own bind knows no channels.
    address = struct.pack("<HHH", socket.AF_BLUETOOTH, NO_DEVICE, CONTROL)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.bind(control.fileno(), address, len(address)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return control


def load(control, index, opcode, keys):
    parameters = struct.pack("<H", len(keys)) + b"".join(keys)
    control.send(struct.pack("<HHH", opcode, index, len(parameters)) + parameters)
    while True:
        code, _, _, answered, status = struct.unpack_from("<HHHHB", control.recv(512))
        if code in (1, 2) and answered == opcode:
            if status:
                sys.exit(f"the kernel refuses: status {status}")
            return


def main():
    index = int(sys.argv[1])
    long_term, identity = [], []
    if len(sys.argv) == 4:
        peer = bytes.fromhex(sys.argv[2].replace(":", ""))[::-1] + b"\2"
        key = bytes.fromhex(sys.argv[3])
        long_term = [peer + struct.pack("<BBBHQ", 2, 0, 16, 0, 0) + key]
        identity = [peer + key]
    control = open_control()
    load(control, index, 0x0013, long_term)
    load(control, index, 0x0030, identity)


if __name__ == "__main__":
    main()
