#!/usr/bin/env python3
"""Stands between a host and its controller's H4 stream over TCP, and says once what the controller never said.

  injecting_proxy.py LISTEN CONTROLLER HEX

Both are ports of 127.0.0.1. After the --after-th ACL packet of the controller's, between two packets, it inserts the
octets HEX towards the host. In HEX, HHHH stands for the connection handle, and CONNECTED for the whole event that
announced the connection. With --cut the stream ends in the middle of the packet that follows.

Standard output, one line each, flushed:
  ready      it listens
  inserted   the octets were sent
"""

import argparse
import asyncio
import struct

# Octets before a packet's length field, and the field's own. Core 5.4, Vol 4, Part E, 5.4.
LENGTH_FIELDS = {1: (2, "B"), 2: (2, "<H"), 3: (2, "B"), 4: (1, "B"), 5: (2, "<H")}
ACL, EVENT = 2, 4
LE_META = 0x3E
CONNECTION_COMPLETE_SUBEVENTS = (0x01, 0x0A)


async def read_packet(reader):
    """One H4 packet with its type octet."""
    kind = await reader.readexactly(1)
    before, field = LENGTH_FIELDS[kind[0]]
    head = await reader.readexactly(before + struct.calcsize(field))
    (count,) = struct.unpack_from(field, head, before)
    return kind + head + await reader.readexactly(count)


def is_connection(packet):
    return packet[0] == EVENT and packet[1] == LE_META and packet[3] in CONNECTION_COMPLETE_SUBEVENTS


async def to_controller(reader, writer):
    while octets := await reader.read(4096):
        writer.write(octets)
    writer.close()


async def to_host(reader, writer, options):
    connected = b""
    acl_packets = 0
    while True:
        packet = await read_packet(reader)
        if is_connection(packet):
            connected = packet
        writer.write(packet)
        if packet[0] != ACL:
            continue
        acl_packets += 1
        if acl_packets == options.after:
            handle = struct.pack("<H", struct.unpack_from("<H", packet, 1)[0] & 0x0FFF)
            text = options.hex.replace("HHHH", handle.hex()).replace("CONNECTED", connected.hex())
            writer.write(bytes.fromhex(text))
            print("inserted", flush=True)
            if options.cut:
                packet = await read_packet(reader)
                writer.write(packet[: len(packet) // 2])
                writer.close()


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("listen", type=int)
    parser.add_argument("controller", type=int)
    parser.add_argument("hex")
    parser.add_argument("--after", type=int, default=150, metavar="N", help="ACL packets")
    parser.add_argument("--cut", action="store_true", help="then end the stream in the middle of a packet")
    options = parser.parse_args()

    async def on_host(reader, writer):
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", options.controller)
        tasks = [
            asyncio.create_task(to_controller(reader, their_writer)),
            asyncio.create_task(to_host(their_reader, writer, options)),
        ]
        # The first end of a stream ends both.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        their_writer.close()
        writer.close()

    await asyncio.start_server(on_host, "127.0.0.1", options.listen)
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
