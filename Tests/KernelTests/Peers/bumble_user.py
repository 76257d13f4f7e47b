#!/usr/bin/env python3
"""Centrals made with google/bumble that use a device as they are told.

  bumble_user.py [TRANSPORT] [--number N] [--centrals N] [--capability NAME] [--legacy] [--mitm] [--numbers FILE] [--passkey N]

TRANSPORT is the controller of the one central, such as hci-socket:1; its number is 1 unless given. Without one the centrals have controllers of bumble's,
and one more on the same virtual link is served as an H4 byte stream on a port of 127.0.0.1 that is free; the device's host
connects there. Standard output: "ready ADDRESS…", or "ready PORT ADDRESS…", the centrals' addresses. Then each line of
standard input is a command, and its answers are lines that begin with the number of the central:

  N find NAME              "N found ADDRESS NAME SERVICES", once it advertises
  N connect NAME           "N connected ADDRESS"
  N mtu OCTETS             "N mtu OCTETS" that both agree on
  N attributes             "N attribute HANDLE UUID" of each, and "N attributes COUNT"
  N read HANDLE            "N read HEX"; as many requests as it takes
  N write HANDLE HEX       "N written", by as many requests as it takes; N command HANDLE HEX: without response
  N prepare HANDLE OFFSET HEX   "N prepared", and nothing is executed
  N flood HANDLE COUNT     "N flooded" when so many read requests went out, without waiting for an answer to any
  N subscribe HANDLE KIND  "N subscribed", KIND is notify or indicate; from then on "N value HEX" of each, in order
  N unsubscribe HANDLE     "N unsubscribed"
  N resolve ADDRESS        "N resolved ADDRESS", the identity of a bonded device that hides behind it
  N pair                   "N paired"; N encrypt: "N encrypted" with the key of an earlier link
  N disconnect             "N disconnected REASON", also by itself when the link ends
A refusal is "N refused CODE", the ATT error; anything else "N failed TEXT".
"""

import argparse
import asyncio
import socket
import sys

from bumble import att, hci
from bumble.controller import Controller
from bumble.core import UUID, AdvertisingData
from bumble.device import Device, DeviceConfiguration, Peer
from bumble.host import Host
from bumble.link import LocalLink
from bumble.pairing import PairingConfig
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

import bumble_secure

CCCD = UUID("2902")


def say(*words):
    print(*words, flush=True)


class Central:
    def __init__(self, number, host, options):
        self.number = number
        self.address = f"F6:F7:F8:F9:FB:{number:02X}"
        configuration = DeviceConfiguration(name=f"central {number}", address=hci.Address(self.address))
        self.device = Device(config=configuration, host=host)
        delegate = bumble_secure.Delegate(options.capability, options.numbers, options.passkey)
        self.device.pairing_config_factory = lambda connection: PairingConfig(
            sc=not options.legacy, mitm=options.mitm, bonding=True, delegate=delegate,
            identity_address_type=PairingConfig.AddressType.RANDOM)
        self.seen = {}
        self.changed = asyncio.Event()
        self.connection = None
        self.peer = None

    def say(self, *words):
        say(self.number, *words)

    def on_advertisement(self, advertisement):
        data = advertisement.data
        name = data.get(AdvertisingData.COMPLETE_LOCAL_NAME) or data.get(AdvertisingData.SHORTENED_LOCAL_NAME)
        services = data.get(AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS) or []
        if name:
            self.seen[name] = (advertisement.address, services)
            self.changed.set()

    async def start(self):
        await self.device.power_on()
        self.device.on("advertisement", self.on_advertisement)

    async def look(self, name):
        self.seen.clear()
        await self.device.start_scanning(active=True)
        while name not in self.seen:
            self.changed.clear()
            await self.changed.wait()
        await self.device.stop_scanning()
        return self.seen[name]

    async def find(self, name):
        address, services = await self.look(name)
        words = [service.to_hex_str() for service in services]
        self.say("found", address.to_string(with_type_qualifier=False), name, *words)

    async def connect(self, name):
        address, _ = await self.look(name)
        self.connection = await self.device.connect(address)
        self.peer = Peer(self.connection)
        self.connection.on(
            self.connection.EVENT_DISCONNECTION, lambda reason: self.say("disconnected", int(reason)))
        client = self.peer.gatt_client
        for kind in ("notification", "indication"):
            self.watch(client, f"on_att_handle_value_{kind}", kind)
        self.say("connected", address.to_string(with_type_qualifier=False))

    def watch(self, client, name, kind):
        """In the place of bumble's own subscribers, which want proxies; an indication is confirmed by its own code."""
        usual = getattr(client, name)

        def on_value(pdu):
            self.say("value", f"0x{pdu.attribute_handle:04x}", pdu.attribute_value.hex(), kind)
            usual(pdu)

        setattr(client, name, on_value)

    async def mtu(self, octets):
        self.say("mtu", await self.peer.request_mtu(int(octets)))

    async def attributes(self):
        await self.peer.discover_services()
        await self.peer.discover_characteristics()
        attributes = await self.peer.discover_attributes()
        for attribute in attributes:
            self.say("attribute", f"0x{attribute.handle:04x}", attribute.type.to_hex_str("-").lower())
        self.say("attributes", len(attributes))

    async def read(self, handle):
        self.say("read", (await self.peer.gatt_client.read_value(int(handle, 16))).hex())

    async def write(self, handle, value=""):
        await self.peer.gatt_client.write_value(int(handle, 16), bytes.fromhex(value), with_response=True)
        self.say("written")

    async def command(self, handle, value=""):
        await self.peer.gatt_client.write_value(int(handle, 16), bytes.fromhex(value), with_response=False)

    async def send(self, pdu):
        self.connection.send_l2cap_pdu(att.ATT_CID, bytes.fromhex(pdu))

    async def prepare(self, handle, offset, value):
        response = await self.peer.gatt_client.send_request(
            att.ATT_Prepare_Write_Request(
                attribute_handle=int(handle, 16), value_offset=int(offset),
                part_attribute_value=bytes.fromhex(value)))
        if response.op_code == att.Opcode.ATT_ERROR_RESPONSE:
            raise att.ATT_Error(error_code=response.error_code, message=response)
        self.say("prepared")

    async def flood(self, handle, count):
        request = bytes(att.ATT_Read_Request(attribute_handle=int(handle, 16)))
        for _ in range(int(count)):
            self.connection.send_l2cap_pdu(att.ATT_CID, request)
        self.say("flooded")

    async def subscribe(self, handle, kind):
        value = b"\x01\x00" if kind == "notify" else b"\x02\x00"
        await self.peer.gatt_client.write_value(int(handle, 16) + 1, value, with_response=True)
        self.say("subscribed")

    async def unsubscribe(self, handle):
        await self.peer.gatt_client.write_value(int(handle, 16) + 1, b"\x00\x00", with_response=True)
        self.say("unsubscribed")

    async def resolve(self, address):
        identity = self.device.address_resolver.resolve(hci.Address(address))
        self.say("resolved", identity.to_string(with_type_qualifier=False) if identity else "nobody")

    async def pair(self):
        await self.connection.pair()
        self.say("paired")

    async def encrypt(self):
        await self.connection.encrypt()
        self.say("encrypted")

    async def disconnect(self):
        await self.connection.disconnect()

    async def run(self, name, *words):
        try:
            await getattr(self, name)(*words)
        except att.ATT_Error as error:
            self.say("refused", int(error.error_code))
        except Exception as error:  # pylint: disable=broad-except
            self.say("failed", repr(error))


async def obey(centrals):
    """Commands of one central one after the other, of several side by side."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    queues = {str(central.number): asyncio.Queue() for central in centrals}

    async def work(central, queue):
        while True:
            await central.run(*await queue.get())

    tasks = [loop.create_task(work(central, queues[str(central.number)])) for central in centrals]
    while line := await reader.readline():
        number, *words = line.decode().split()
        queues[number].put_nowait(words)
    for task in tasks:
        task.cancel()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transport", nargs="?")
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--centrals", type=int, default=1)
    parser.add_argument("--capability", choices=bumble_secure.CAPABILITIES, default="none")
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--mitm", action="store_true")
    parser.add_argument("--numbers")
    parser.add_argument("--passkey", type=int)
    return parser.parse_args()


async def main():
    options = parse_arguments()
    if options.transport:
        async with await open_transport(options.transport) as (source, sink):
            central = Central(options.number, Host(source, sink), options)
            await central.start()
            say("ready", central.address)
            await obey([central])
        return
    link = LocalLink()
    centrals = []
    for number in range(1, options.centrals + 1):
        controller = Controller(f"central {number}", link=link)
        central = Central(number, Host(controller, AsyncPipeSink(controller)), options)
        await central.start()
        centrals.append(central)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with await open_transport(f"tcp-server:127.0.0.1:{port}") as (source, sink):
        # Without a public address: bumble's link carries data between random addresses only.
        Controller("served", host_source=source, host_sink=sink, link=link)
        say("ready", port, *(central.address for central in centrals))
        await obey(centrals)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
