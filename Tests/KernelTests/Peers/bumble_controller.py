#!/usr/bin/env python3
"""A controller of google/bumble as an H4 byte stream, with bumble's ring on a second one in its radio range.

  bumble_controller.py TRANSPORT [options of bumble_ring.py]

TRANSPORT is where the controller is served, for example tcp-server:127.0.0.1:6402, unix-server:/tmp/controller or
pty:/tmp/port, a symbolic link to the serial port. The output is that of bumble_ring.py.
"""

import asyncio

from bumble.controller import Controller
from bumble.host import Host
from bumble.link import LocalLink
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

import bumble_ring

RING_ADDRESS = "F0:F1:F2:F3:F4:F5"


async def main():
    options = bumble_ring.parse_arguments()
    # Never a public address: bumble's link carries data between random addresses only.
    options.address = options.address or RING_ADDRESS
    link = LocalLink()
    near = Controller("ring", link=link)
    ring = await bumble_ring.start(Host(near, AsyncPipeSink(near)), options)
    async with await open_transport(options.transport) as (source, sink):
        Controller("served", host_source=source, host_sink=sink, link=link)
        await bumble_ring.serve(ring)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
