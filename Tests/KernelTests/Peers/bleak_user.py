#!/usr/bin/env python3
"""A central made with bleak, over the bluetoothd that runs: finds a device by its name and uses it.

  bleak_user.py NAME

Standard output, one line each, flushed:
  scanning                 the device may begin to advertise now
  connected ADDRESS
  characteristic HANDLE UUID PROPERTIES    of each, in order
  subscribed               to 2A37; then "value HEX" of the first
  paired
  read HEX                 AA01; then "written" when 300 octets are there, and "read HEX" again
  indicated HEX            the first value of AA01 that was indicated
  disconnected
"""

import asyncio
import sys

from bleak import BleakClient, BleakScanner
from bleak.exc import BleakError
from dbus_fast import BusType
from dbus_fast.aio import MessageBus

# bluetoothd keeps it to itself, once it has looked at it.
GENERIC_ACCESS = "00001800-0000-1000-8000-00805f9b34fb"
RATE = "00002a37-0000-1000-8000-00805f9b34fb"
LONG = "0000aa01-0000-1000-8000-00805f9b34fb"


def say(*words):
    print(*words, flush=True)


async def find(name):
    found = asyncio.get_running_loop().create_future()

    def on_advertisement(device, advertisement):
        if advertisement.local_name == name and not found.done():
            found.set_result(device)

    async with BleakScanner(on_advertisement):
        say("scanning")
        device = await found
    await idle()
    return device


async def idle():
    """Waits until bluetoothd discovers no more: 5.66 takes a link that comes up before for a second one, and ends it."""
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    path = "/org/bluez/hci0"
    proxy = bus.get_proxy_object("org.bluez", path, await bus.introspect("org.bluez", path))
    adapter = proxy.get_interface("org.bluez.Adapter1")
    while await adapter.get_discovering():
        await asyncio.sleep(0.02)
    bus.disconnect()


async def first(client, uuid):
    """Subscribes; a future of the first value."""
    value = asyncio.get_running_loop().create_future()

    def on_value(_, octets):
        if not value.done():
            value.set_result(bytes(octets).hex())

    await client.start_notify(uuid, on_value)
    return value


async def use(client):
    for characteristic in sorted(client.services.characteristics.values(), key=lambda one: one.handle):
        if characteristic.service_uuid == GENERIC_ACCESS:
            continue
        properties = ",".join(sorted(characteristic.properties))
        say("characteristic", f"0x{characteristic.handle:04x}", characteristic.uuid, properties)
    rate = await first(client, RATE)
    say("subscribed")
    say("value", await rate)
    await client.pair()
    say("paired")
    say("read", bytes(await client.read_gatt_char(LONG)).hex())
    await client.write_gatt_char(LONG, b"\x5a" * 300, response=True)
    say("written")
    say("read", bytes(await client.read_gatt_char(LONG)).hex())
    value = await first(client, LONG)
    say("subscribed")
    say("indicated", await value)


async def connect(device):
    """bluetoothd 5.66 ends a link now and then that comes up while it stops its discovery: it takes it for a second one."""
    for attempt in range(3):
        client = BleakClient(device)
        try:
            await client.connect()
            return client
        except BleakError as error:
            print(f"attempt {attempt + 1}: {error}", file=sys.stderr, flush=True)
            if attempt == 2:
                raise
            # Whatever it thinks of the link: until that is over, it would say that one is up.
            await client.disconnect()


async def main():
    device = await find(sys.argv[1])
    try:
        client = await connect(device)
        say("connected", device.address)
        await use(client)
        await client.disconnect()
    except BleakError as error:
        sys.exit(f"bleak: {error}")
    say("disconnected")


if __name__ == "__main__":
    asyncio.run(main())
