#!/usr/bin/env python3
"""A smart ring of the COLMI family, as a GATT server made with bumble.

Independent of the project's own emulation: tests use it as the other side of a real HCI link.

Standard output, one line each, flushed:
  ready ADDRESS   advertising has started
  malformed M     a stream ended; M of its frames were malformed on purpose (only with --malformed)
  sent N          a stream ended; N frames left for the controller, not counting the malformed ones
Everything else goes to standard error, there too one line each:
  connected, disconnected ADDRESS
  command HEX     a valid frame came
  confirmed HEX   an indication of this value was confirmed
  wrote N HEX     a value of N octets was written to FF01
  streaming N     a stream goes on; N frames were sent so far, a multiple of 150
  holding         the frames of --hold-at have left for the controller
With --hold-at, "streaming 150" comes when the client has asked for the second channel, which ends what it asks of a ring.
"""

import argparse
import asyncio
import signal
import struct
import sys

from bumble import hci
from bumble.att import ATT_CID, Attribute
from bumble.core import UUID, AdvertisingData
from bumble.device import Device, DeviceConfiguration
from bumble.gatt import (
    AttributeValue,
    Characteristic,
    Descriptor,
    IncludedServiceDeclaration,
    Service,
)
from bumble.host import Host
from bumble.transport import open_transport

READ = Characteristic.Properties.READ
WRITE = Characteristic.Properties.WRITE
WRITE_WITHOUT_RESPONSE = Characteristic.Properties.WRITE_WITHOUT_RESPONSE
NOTIFY = Characteristic.Properties.NOTIFY
INDICATE = Characteristic.Properties.INDICATE
READABLE = Attribute.Permissions.READABLE
WRITEABLE = Attribute.Permissions.WRITEABLE

FRAME_BYTE_COUNT = 16
MAX_QUEUED_FRAMES = 32

# Captured from real rings: subtypes 1 (red), 2 (green, "PPG") and 3 (accelerometer).
RED = bytes.fromhex("a10100a000c20072009501000000000c")
PPG = bytes.fromhex("a10229812acd29c1010c01000000003c")
ACCELEROMETER = bytes.fromhex("a10312030b0d170400000000000000ec")
# Captured: the answer to BC 27, two nights of sleep. Longer than one notification at the default MTU.
SLEEP = bytes.fromhex(
    "bc273b00996f02021ecc00a401022704130214040d030d040b031f020e040e030d041205030208"
    "0118a500a50102230314021d040b022203200412032404110218"
)


def with_checksum(first_bytes):
    """Pads to a whole frame and adds the sum modulo 256."""
    frame = bytes(first_bytes).ljust(FRAME_BYTE_COUNT - 1, b"\0")
    return frame + bytes([sum(frame) & 0xFF])


def frames_of_tick(tick):
    """The three frames of one tick. Each carries the tick's number, so that a lost one shows."""
    number = tick % 10000
    red, ppg, accelerometer = bytearray(RED), bytearray(PPG), bytearray(ACCELEROMETER)
    struct.pack_into(">H", red, 2, number)
    struct.pack_into(">H", ppg, 2, number + 1600)
    x = tick % 4096
    accelerometer[6], accelerometer[7] = x >> 4, x & 0x0F
    return [with_checksum(frame[:-1]) for frame in (red, ppg, accelerometer)]


class Stream:
    """Sends raw frames to one connection until told to stop."""

    def __init__(self, ring, connection):
        self.ring = ring
        self.connection = connection
        self.sent = 0
        self.malformed = 0
        self.task = asyncio.create_task(self.run())

    async def run(self):
        options = self.ring.options
        drop = False
        try:
            await self.send_ticks()
            drop = bool(options.disconnect_after) and self.sent >= options.disconnect_after
            # Queued packets are still sent, unless the link is down; then bumble has emptied the queue.
            await self.drain()
        except asyncio.CancelledError:
            await self.drain()
        finally:
            self.ring.stream = None
        if options.malformed:
            print("malformed", self.malformed, flush=True)
        print("sent", self.sent, flush=True)
        if drop:
            await self.connection.disconnect()

    async def send_ticks(self):
        options = self.ring.options
        limits = [limit for limit in (options.count, options.disconnect_after) if limit]
        limit = min(limits, default=None)
        loop = asyncio.get_running_loop()
        start = loop.time()
        tick = 0
        while True:
            for frame in frames_of_tick(tick):
                if self.sent == limit:
                    return
                await self.send(frame)
                self.sent += 1
                if self.sent == 150 and options.hold_at:
                    await self.ring.asked_all.wait()
                if self.sent % 150 == 0:
                    print("streaming", self.sent, file=sys.stderr, flush=True)
                if self.sent == options.hold_at:
                    await self.hold()
                if options.hold_at and self.sent > options.hold_at:
                    await asyncio.sleep(0.01)
                if options.malformed and self.sent % options.malformed == 0:
                    await self.send_malformed(frame)
                    self.malformed += 1
            tick += 1
            if options.rate:
                await asyncio.sleep(max(0, start + tick * 3 / options.rate - loop.time()))
            if self.connection.data_packet_queue.pending > MAX_QUEUED_FRAMES:
                await self.drain()

    async def hold(self):
        go_on = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, go_on.set)
        await self.drain()
        print("holding", file=sys.stderr, flush=True)
        await go_on.wait()

    async def send_malformed(self, frame):
        """By turns a wrong checksum, a cut frame, and a notification without a whole handle."""
        kind = self.malformed % 3
        if kind == 2:
            self.connection.send_l2cap_pdu(ATT_CID, b"\x1b\x12")
        else:
            await self.send(frame[:3] if kind else frame[:-1] + bytes([frame[-1] ^ 0xFF]))

    async def send(self, frame):
        await self.ring.device.notify_subscriber(self.connection, self.ring.transmit, frame)

    async def drain(self):
        queue = self.connection.data_packet_queue
        while self.connection in self.ring.connections and queue.pending:
            await asyncio.sleep(0.001)


class LegacyDevice(Device):
    """Uses the legacy advertising commands even if the controller has the extended ones."""

    supports_le_extended_advertising = False


class Ring:
    """The attributes and what they do."""

    def __init__(self, device, options):
        self.device = device
        self.options = options
        self.stream = None
        self.connections = set()
        self.address_type = hci.OwnAddressType.RANDOM if options.address else hci.OwnAddressType.PUBLIC
        self.transmit = Characteristic("6E400003-B5A3-F393-E0A9-E50E24DCCA9E", NOTIFY, Attribute.Permissions(0))
        self.big_data = Characteristic("DE5BF729-D711-4E47-AF26-65E3012A5DC7", NOTIFY, Attribute.Permissions(0))
        self.asked_all = asyncio.Event()
        self.big_data.on(Characteristic.EVENT_SUBSCRIPTION, lambda *_: self.asked_all.set())
        device.add_services(self.ring_services() + self.discovery_services())
        if options.echo:
            device.add_service(self.echo_service())
        correct_includes(device.gatt_server.attributes)
        device.on(Device.EVENT_CONNECTION, self.on_connection)

    def ring_services(self):
        receive = Characteristic(
            "6E400002-B5A3-F393-E0A9-E50E24DCCA9E",
            WRITE | WRITE_WITHOUT_RESPONSE,
            WRITEABLE,
            AttributeValue(write=self.on_command),
        )
        big_data_write = Characteristic(
            "DE5BF72A-D711-4E47-AF26-65E3012A5DC7",
            WRITE_WITHOUT_RESPONSE,
            WRITEABLE,
            AttributeValue(write=self.on_big_data),
        )
        self.command_service = Service("6E40FFF0-B5A3-F393-E0A9-E50E24DCCA9E", [receive, self.transmit])
        self.information = Service(
            "180A",
            [
                Characteristic("2A27", READ, READABLE, b"R02_V3.0"),
                Characteristic("2A26", READ, READABLE, b"R02_3.00.06_240523"),
            ],
        )
        big_data = Service("DE5BF728-D711-4E47-AF26-65E3012A5DC7", [big_data_write, self.big_data])
        return [self.command_service, big_data, self.information]

    def discovery_services(self):
        """Nothing a ring has: the attribute kinds that discovery must cope with."""
        both = Characteristic(
            "FFE1",
            READ | NOTIFY | INDICATE,
            READABLE,
            b"\x01\x02\x03\x04",
            [Descriptor("2901", READABLE, "both ways".encode())],
        )
        both.on(Characteristic.EVENT_SUBSCRIPTION, self.send_once(both))
        including = Service(
            "FFE4",
            [Characteristic("FFE5", READ, READABLE, b"\x05")],
            included_services=[self.information, self.command_service],
        )
        return [Service("FFE0", [both]), including]

    def echo_service(self):
        self.echo = bytes(index % 256 for index in range(200))
        value = AttributeValue(read=lambda _: self.echo, write=self.on_echo)
        indicating = Characteristic("FF02", INDICATE, Attribute.Permissions(0), b"indicated")
        indicating.on(Characteristic.EVENT_SUBSCRIPTION, self.send_once(indicating))
        return Service(
            "FF00",
            [
                Characteristic("FF01", READ | WRITE, READABLE | WRITEABLE, value),
                indicating,
                Characteristic("FF03", READ, READABLE, b""),
            ],
        )

    def send_once(self, characteristic):
        """A subscription handler that sends the value once, in each way that was asked for."""

        def on_subscription(connection, notify, indicate):
            async def send():
                # After the write response.
                await asyncio.sleep(0.01)
                if notify:
                    await self.device.notify_subscriber(connection, characteristic, characteristic.value)
                if indicate:
                    await self.device.indicate_subscriber(connection, characteristic, characteristic.value)
                    print("confirmed", characteristic.value.hex(), file=sys.stderr, flush=True)

            self.background = asyncio.create_task(send())

        return on_subscription

    def on_connection(self, connection):
        print("connected", connection.peer_address, file=sys.stderr)
        self.connections.add(connection)
        connection.on(connection.EVENT_DISCONNECTION, lambda _: self.on_disconnection(connection))

    def on_disconnection(self, connection):
        print("disconnected", connection.peer_address, file=sys.stderr)
        self.connections.discard(connection)
        self.stop()

    def stop(self):
        if self.stream:
            self.stream.task.cancel()

    def on_echo(self, _, value):
        self.echo = bytes(value)
        print("wrote", len(value), value.hex(), file=sys.stderr, flush=True)

    async def on_command(self, connection, value):
        if len(value) != FRAME_BYTE_COUNT or with_checksum(value[:-1]) != value:
            print("ignored frame", value.hex(), file=sys.stderr)
            return
        print("command", value.hex(), file=sys.stderr, flush=True)
        if value[0] == 0xA1 and value[1] == 4:
            if not self.stream:
                self.stream = Stream(self, connection)
        elif value[0] == 0xA1 and value[1] == 2:
            self.stop()
        elif value[0] == 0x03:
            await self.reply(connection, [0x03, 64, 0])
        else:
            await self.reply(connection, [value[0] | 0x80, 0xEE])

    async def reply(self, connection, first_bytes):
        await self.device.notify_subscriber(connection, self.transmit, with_checksum(first_bytes))

    async def on_big_data(self, connection, value):
        if value[:2] != b"\xbc\x27":
            print("ignored big data", value.hex(), file=sys.stderr)
            return
        step = connection.att_mtu - 3
        for offset in range(0, len(SLEEP), step):
            await self.device.notify_subscriber(connection, self.big_data, SLEEP[offset : offset + step])


def correct_includes(attributes):
    """bumble appends half of a 128-bit UUID to an include; the specification wants none of it.

    Core 5.4, Vol 3, Part G, 3.2.
    """
    for attribute in attributes:
        if isinstance(attribute, IncludedServiceDeclaration) and len(attribute.service.uuid.to_pdu_bytes()) != 2:
            attribute.value = attribute.value[:4]


async def restart_advertising(device, kind):
    try:
        await device.start_advertising(own_address_type=kind, auto_restart=True)
    except hci.HCI_Error as error:
        # A connection came in between and has ended the advertising.
        print("advertising not restarted:", error, file=sys.stderr)


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("transport", help="bumble transport, for example hci-socket:1")
    parser.add_argument("--address", help="random static address; without it the controller's public one")
    parser.add_argument("--name", default="R02_A1B2")
    parser.add_argument("--rate", type=float, default=3, help="notifications per second; 0: as fast as possible")
    parser.add_argument("--count", type=int, help="end each stream after this many frames")
    parser.add_argument("--hold-at", type=int, metavar="N", help="after N frames wait for SIGUSR1; then 100 a second")
    parser.add_argument("--disconnect-after", type=int, metavar="N", help="drop the link after N frames")
    parser.add_argument("--malformed", type=int, metavar="EVERY", help="an extra bad frame after every EVERY-th")
    parser.add_argument("--echo", action="store_true", help="add the service FF00 with odd values")
    parser.add_argument("--mtu", type=int, help="the largest MTU that it agrees to")
    parser.add_argument("--readvertise", type=float, metavar="SECONDS", help="restart advertising this often")
    parser.add_argument("--legacy", action="store_true", help="use the legacy advertising commands")
    return parser.parse_args(arguments)


def advertisement(name):
    return bytes(
        AdvertisingData(
            [
                (AdvertisingData.FLAGS, bytes([0x06])),
                (AdvertisingData.COMPLETE_LOCAL_NAME, name.encode()),
                (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, UUID("180A").to_bytes()),
            ]
        )
    )


async def start(host, options):
    """Makes a ring on a host; returns when it advertises."""
    # The name in the GAP service comes from the configuration.
    configuration = DeviceConfiguration(name=options.name)
    if options.address:
        configuration.address = hci.Address(options.address)
    kind_of_device = LegacyDevice if options.legacy else Device
    device = kind_of_device(config=configuration, host=host)
    if options.mtu:
        device.gatt_server.max_mtu = options.mtu
    ring = Ring(device, options)
    await device.power_on()
    device.advertising_data = advertisement(options.name)
    await device.start_advertising(own_address_type=ring.address_type, auto_restart=True)
    return ring


async def serve(ring):
    """Says that the ring is there, and keeps it in the air."""
    device, options = ring.device, ring.options
    address = device.random_address if options.address else device.public_address
    print("ready", address.to_string(with_type_qualifier=False), flush=True)
    while True:
        await asyncio.sleep(options.readvertise or 3600)
        if options.readvertise and not ring.connections:
            await restart_advertising(device, ring.address_type)


async def main():
    options = parse_arguments()
    async with await open_transport(options.transport) as (source, sink):
        await serve(await start(Host(source, sink), options))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
