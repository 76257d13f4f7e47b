#!/usr/bin/env python3
"""Records a smart ring's raw stream with google/bumble's host: another central, on whatever controller it is given.

Finds the ring by its name, connects, agrees on an MTU, discovers, subscribes, starts the stream, stops it after the
frames asked for, and disconnects. Standard output, one line each, flushed:
  found ADDRESS NAME        an advertisement with the name came
  connected ADDRESS
  mtu N                     what both have agreed on
  attribute HANDLE UUID     each, in order
  frame HEX                 each raw frame, in the order in which they came
  other HEX                 anything else that the ring notified
  disconnected REASON       as the controller says; the last line
"""

import argparse
import asyncio

from bumble import hci
from bumble.core import AdvertisingData
from bumble.device import Device, Peer
from bumble.transport import open_transport

RECEIVE = "6E400002-B5A3-F393-E0A9-E50E24DCCA9E"
TRANSMIT = "6E400003-B5A3-F393-E0A9-E50E24DCCA9E"
# The documented commands that switch the raw stream on and off.
START = bytes.fromhex("a10400000000000000000000000000a5")
STOP = bytes.fromhex("a10200000000000000000000000000a3")
BATTERY = bytes.fromhex("03000000000000000000000000000003")


def say(*words):
    print(*words, flush=True)


async def find(device, name):
    """The address of the first advertiser with this name."""
    found = asyncio.get_running_loop().create_future()

    def on_advertisement(advertisement):
        data = advertisement.data
        advertised = data.get(AdvertisingData.COMPLETE_LOCAL_NAME) or data.get(AdvertisingData.SHORTENED_LOCAL_NAME)
        if advertised == name and not found.done():
            found.set_result(advertisement.address)

    device.on("advertisement", on_advertisement)
    await device.start_scanning(active=True)
    address = await found
    await device.stop_scanning()
    say("found", address.to_string(with_type_qualifier=False), name)
    return address


async def record(peer, count):
    """Subscribes, starts the stream and waits for its first frames."""
    done = asyncio.get_running_loop().create_future()
    frames = 0

    def on_frame(value):
        nonlocal frames
        if value[0] != 0xA1:
            say("other", value.hex())
        elif frames < count:
            frames += 1
            say("frame", value.hex())
        if frames == count and not done.done():
            done.set_result(None)

    (receive,) = peer.get_characteristics_by_uuid(RECEIVE)
    (transmit,) = peer.get_characteristics_by_uuid(TRANSMIT)
    await peer.subscribe(transmit, on_frame)
    await peer.write_value(receive, BATTERY, with_response=True)
    await peer.write_value(receive, START, with_response=True)
    await done
    await peer.write_value(receive, STOP, with_response=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("transport", help="bumble transport, for example tcp-client:127.0.0.1:6402")
    parser.add_argument("--name", default="R02_A1B2")
    parser.add_argument("--count", type=int, default=600, help="frames to receive")
    parser.add_argument("--mtu", type=int, default=247, help="what it asks for")
    options = parser.parse_args()

    async with await open_transport(options.transport) as (source, sink):
        device = Device.with_hci("central", hci.Address("F0:F1:F2:F3:F4:F6"), source, sink)
        await device.power_on()
        connection = await device.connect(await find(device, options.name))
        say("connected", connection.peer_address.to_string(with_type_qualifier=False))
        gone = asyncio.get_running_loop().create_future()
        connection.on(connection.EVENT_DISCONNECTION, gone.set_result)
        peer = Peer(connection)
        say("mtu", await peer.request_mtu(options.mtu))
        await peer.discover_services()
        await peer.discover_characteristics()
        for attribute in await peer.discover_attributes():
            say("attribute", f"0x{attribute.handle:04x}", attribute.type.to_hex_str("-").lower())
        await record(peer, options.count)
        await connection.disconnect()
        say("disconnected", await gone)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
