#!/usr/bin/env python3
"""A peripheral made with google/bumble whose attributes want a secure link.

  bumble_secure.py [TRANSPORT] [--capability NAME] [--legacy] [--mitm] [--private] [--forgetful]
                   [--numbers FILE] [--passkey NUMBER] [--speaks-first] [--heart-rate]
                   [--key-size COUNT] [--identity ADDRESS]

TRANSPORT is its controller, such as hci-socket:1. Without one a bumble device with its own controller advertises, and a
second controller on the same virtual link is served as an H4 byte stream on a port of 127.0.0.1 that is free; bumble's
controllers compare the keys that both hosts encrypt with. Keys are kept until the program ends. Standard output, one
line: "ready ADDRESS", or "ready PORT ADDRESS", where the address is its identity.

Characteristics: AA01 is open, AA02 wants encryption, AA03 wants authentication to be read, AA04 encryption to be written.
Each that is read says its name. AA05 has the value that was last written with a signature by a bonded central, as bumble's
own AES-CMAC has it; bumble 0.0.236 itself does not look at signed writes.

  --capability  display, yes-no, keyboard, none, keyboard-display
  --forgetful   forgets each central at the end of its link, and prints "forgot"; SIGUSR1 has it forget at once. From SIGUSR2
                on it answers no request for its key, and prints "silent"
  --identity    names this static address as its identity, whatever its own is
  --key-size    the longest key that it makes, in bytes; 16 if not given
  --heart-rate  a strap besides: 20 measurements a second, which take no security
  --legacy      no Secure Connections
  --mitm        asks for protection against somebody in the middle
  --private     advertises under resolvable private addresses, a new one for each advertising
  --passkey     what is shown to be typed on the other side, in place of a random one
  --numbers     where the number is written that bumble shows or compares; a keyboard types what it finds there
  --speaks-first  asked for its key, it asks for the MTU itself, and gives the key once that is answered
"""

import argparse
import asyncio
import os
import signal
import socket

from bumble import crypto, hci
from bumble.controller import Controller
from bumble.core import UUID
from bumble.crypto import aes_cmac
from bumble.device import Device, DeviceConfiguration, Peer
from bumble.gatt import Characteristic, Service
from bumble.host import Host
from bumble.link import LocalLink
from bumble.pairing import PairingConfig, PairingDelegate
from bumble.profiles.heart_rate_service import HeartRateService
from bumble.smp import Session, SMP_Identity_Address_Information_Command
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

ADDRESS = "F0:F1:F2:F3:F4:F8"
CAPABILITIES = {
    "display": PairingDelegate.DISPLAY_OUTPUT_ONLY,
    "yes-no": PairingDelegate.DISPLAY_OUTPUT_AND_YES_NO_INPUT,
    "keyboard": PairingDelegate.KEYBOARD_INPUT_ONLY,
    "none": PairingDelegate.NO_OUTPUT_NO_INPUT,
    "keyboard-display": PairingDelegate.DISPLAY_OUTPUT_AND_KEYBOARD_INPUT,
}


class Delegate(PairingDelegate):
    def __init__(self, capability, path, passkey, key_size=16):
        keys = PairingDelegate.KeyDistribution
        super().__init__(
            CAPABILITIES[capability],
            maximum_encryption_key_size=key_size,
            local_initiator_key_distribution=PairingDelegate.DEFAULT_KEY_DISTRIBUTION | keys.DISTRIBUTE_SIGNING_KEY)
        self.path = path
        self.passkey = passkey

    async def generate_passkey(self):
        return await super().generate_passkey() if self.passkey is None else self.passkey

    def write(self, number):
        if self.path:
            with open(self.path + ".new", "w", encoding="ascii") as file:
                file.write(f"{number}\n")
            os.rename(self.path + ".new", self.path)

    async def compare_numbers(self, number, digits):
        self.write(number)
        return True

    async def display_number(self, number, digits):
        self.write(number)

    async def get_number(self):
        while not os.path.exists(self.path):
            await asyncio.sleep(0.01)
        with open(self.path, encoding="ascii") as file:
            return int(file.read())


def service():
    readable = Characteristic.READABLE
    encrypted, authenticated = Characteristic.READ_REQUIRES_ENCRYPTION, Characteristic.READ_REQUIRES_AUTHENTICATION

    def characteristic(uuid, permissions, value, properties=Characteristic.Properties.READ):
        return Characteristic(UUID(uuid), properties, permissions, value)

    return Service(
        UUID("AA00"),
        [
            characteristic("AA01", readable, b"open"),
            characteristic("AA02", readable | encrypted, b"encrypted"),
            characteristic("AA03", readable | authenticated, b"authenticated"),
            characteristic(
                "AA04", readable | Characteristic.WRITEABLE | Characteristic.WRITE_REQUIRES_ENCRYPTION, b"written",
                Characteristic.Properties.READ | Characteristic.Properties.WRITE),
            characteristic(
                "AA05", readable, b"unsigned",
                Characteristic.Properties.READ | Characteristic.Properties.AUTHENTICATED_SIGNED_WRITES),
        ])


def take_signed_writes(device):
    """Core 5.4, Vol 3, Part H, 2.4.5: all in the opposite order of octets, the upper half of the code."""
    known = {"key": None, "counter": -1}

    def paired(keys):
        if keys and keys.csrk:
            known.update(key=keys.csrk.value, counter=-1)

    def accept(_, pdu):
        octets = bytes([pdu.op_code]) + pdu.payload
        signed, code = octets[:-8], octets[-8:]
        counter = int.from_bytes(signed[-4:], "little")
        if known["key"] is None or counter <= known["counter"]:
            return
        if aes_cmac(signed[::-1], known["key"][::-1])[:8][::-1] != code:
            return
        known["counter"] = counter
        attribute = device.gatt_server.get_attribute(int.from_bytes(signed[1:3], "little"))
        if attribute and attribute.type == UUID("AA05"):
            attribute.value = signed[3:-4]

    device.gatt_server.on_att_signed_write_command = accept
    device.on("connection", lambda connection: connection.on("pairing", paired))


async def hide(device):
    """A new resolvable private address. Device.update_rpa gives the controller the one before."""
    address = hci.Address.generate_private_address(device.irk)
    await device.send_sync_command(hci.HCI_LE_Set_Random_Address_Command(random_address=address))
    device.random_address = address


def look_for_own_keys(device):
    """As the peripheral of a legacy pairing bumble 0.0.236 looks for the central's key where its own is wanted."""
    usual = device.get_long_term_key

    async def own_key(handle, rand, ediv):
        connection = device.lookup_connection(handle)
        if connection is None or device.smp_manager.get_long_term_key(connection, rand, ediv):
            return await usual(handle, rand, ediv)
        keys = await device.keystore.get(str(connection.peer_address))
        own = keys.ltk_central if keys else None
        if own and own.ediv == ediv and own.rand == rand:
            return own.value
        return await usual(handle, rand, ediv)

    device.host.long_term_key_provider = own_key


def shorten_keys(size):
    """bumble 0.0.236 agrees on a length and makes keys of 16 bytes all the same. Core 5.4, Vol 3, Part H, 2.3.4."""
    usual_stk, usual_ltk = crypto.s1, crypto.f5

    def short(key):
        return key[:size] + bytes(16 - size)

    def f5(*arguments):
        mac_key, key = usual_ltk(*arguments)
        return mac_key, short(key)

    crypto.s1 = lambda *arguments: short(usual_stk(*arguments))
    crypto.f5 = f5


def speak_first(device):
    usual = device.host.long_term_key_provider

    async def key(handle, rand, ediv):
        await Peer(device.lookup_connection(handle)).request_mtu(185)
        return await usual(handle, rand, ediv)

    device.host.long_term_key_provider = key


def add_strap(device):
    def measurement():
        return HeartRateService.HeartRateMeasurement(heart_rate=72)

    strap = HeartRateService(read_heart_rate_measurement=lambda _: measurement())
    device.add_service(strap)

    async def stream():
        while True:
            await asyncio.sleep(0.05)
            await device.notify_subscribers(strap.heart_rate_measurement_characteristic, bytes(measurement()))

    return stream


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transport", nargs="?")
    parser.add_argument("--capability", choices=CAPABILITIES, default="none")
    parser.add_argument("--forgetful", action="store_true")
    parser.add_argument("--heart-rate", action="store_true")
    parser.add_argument("--identity")
    parser.add_argument("--key-size", type=int, default=16)
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--mitm", action="store_true")
    parser.add_argument("--private", action="store_true")
    parser.add_argument("--speaks-first", action="store_true")
    parser.add_argument("--numbers")
    parser.add_argument("--passkey", type=int)
    return parser.parse_args()


async def advertise(host, options):
    configuration = DeviceConfiguration(name="secure", address=hci.Address(ADDRESS))
    configuration.irk = bytes(range(1, 17))
    device = Device(config=configuration, host=host)
    delegate = Delegate(options.capability, options.numbers, options.passkey, options.key_size)
    device.pairing_config_factory = lambda connection: PairingConfig(
        sc=not options.legacy, mitm=options.mitm, bonding=True, delegate=delegate,
        identity_address_type=PairingConfig.AddressType.RANDOM)
    device.add_service(service())
    stream = add_strap(device) if options.heart_rate else None
    await device.power_on()
    look_for_own_keys(device)
    if options.speaks_first:
        speak_first(device)
    take_signed_writes(device)

    async def start():
        if options.private:
            await hide(device)
        await device.start_advertising(own_address_type=hci.OwnAddressType.RANDOM)

    if options.key_size < 16:
        shorten_keys(options.key_size)
    if options.identity:
        named = hci.Address(options.identity)
        Session.send_identity_address_command = lambda session: session.send_command(
            SMP_Identity_Address_Information_Command(addr_type=named.address_type, bd_addr=named))

    async def silence(*_):
        await asyncio.get_running_loop().create_future()

    def fall_silent():
        device.host.long_term_key_provider = silence
        print("silent", flush=True)

    async def forget():
        await device.keystore.delete_all()
        print("forgot", flush=True)

    async def end():
        if options.forgetful:
            await forget()
        await start()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: loop.create_task(forget()))
    loop.add_signal_handler(signal.SIGUSR2, fall_silent)

    device.on(
        "connection",
        lambda connection: connection.on(
            "disconnection", lambda _: asyncio.get_running_loop().create_task(end())))
    await start()
    if stream:
        device.streaming = loop.create_task(stream())


async def serve_controller(link):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    while True:
        async with await open_transport(f"tcp-server:127.0.0.1:{port}") as (source, sink):
            # Without a public address: bumble's link carries data between random addresses only.
            Controller("served", host_source=source, host_sink=sink, link=link)
            print("ready", port, ADDRESS, flush=True)
            await asyncio.get_running_loop().create_future()


async def main():
    options = parse_arguments()
    if options.transport:
        async with await open_transport(options.transport) as (source, sink):
            await advertise(Host(source, sink), options)
            print("ready", ADDRESS, flush=True)
            await source.terminated
    else:
        link = LocalLink()
        near = Controller("peer", link=link)
        await advertise(Host(near, AsyncPipeSink(near)), options)
        await serve_controller(link)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
