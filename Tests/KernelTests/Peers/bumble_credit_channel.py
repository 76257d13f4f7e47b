#!/usr/bin/env python3
"""LE credit-based channels made with google/bumble, behind a controller that is served over TCP.

  bumble_credit_channel.py

A bumble device with its own controller advertises; a second controller on the same virtual link is served as an H4 byte
stream on a port of 127.0.0.1 that is free. Standard output, one line: "ready PORT ADDRESS".

What a channel does is told by its SPSM:
  0x80        sends each SDU back; MTU 512, MPS 100, 8 credits
  0x81        the same with MTU 64, MPS 23, 1 credit
  0x90-0x9F   refused, with the low four bits as the result
  0xA0        the request is not answered
  0xA1        the request is answered by a Command Reject
  0xB0        at the first SDU: 65,535 credits
  0xB1        at the first SDU: an SDU one octet longer than the MTU allows
  0xB2        at the first SDU: a PDU one octet longer than the MPS allows
  0xB3        at the first SDU: 200 SDUs of one octet, credits or not
  0xB4        at the first SDU: closes the channel
  0xB5        takes no SDU, and gives no more than its 8 credits
"""

import asyncio
import socket
import struct
from collections import deque

from bumble import hci, l2cap
from bumble.controller import Controller
from bumble.device import Device, DeviceConfiguration
from bumble.host import Host
from bumble.link import LocalLink
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

ADDRESS = "F0:F1:F2:F3:F4:F7"


class Echo:
    """Sends SDUs back as they came: bumble's own queue joins them, and knows none that is empty."""

    def __init__(self, channel):
        self.channel = channel
        self.waiting = deque()
        self.send_pdus = channel.process_output
        channel.process_output = self.process_output
        channel.sink = self.received

    def received(self, sdu):
        self.waiting.append(sdu)
        self.process_output()

    def process_output(self):
        self.send_pdus()
        while self.channel.out_sdu is None and self.waiting:
            sdu = self.waiting.popleft()
            self.channel.out_sdu = struct.pack("<H", len(sdu)) + sdu
            self.send_pdus()


def misbehave(channel, psm):
    if psm == 0xB5:
        channel.on_pdu = lambda pdu: None
        return

    def attack(_):
        channel.sink = lambda sdu: None
        if psm == 0xB0:
            channel.send_control_frame(
                l2cap.L2CAP_LE_Flow_Control_Credit(
                    identifier=channel.manager.next_identifier(channel.connection),
                    cid=channel.source_cid,
                    credits=65535,
                ))
        elif psm == 0xB1:
            channel.send_pdu(struct.pack("<H", channel.peer_mtu + 1) + b"\0")
        elif psm == 0xB2:
            channel.send_pdu(struct.pack("<H", channel.peer_mps - 1) + bytes(channel.peer_mps - 1))
        elif psm == 0xB3:
            for number in range(200):
                channel.send_pdu(struct.pack("<HB", 1, number))
        elif psm == 0xB4:
            asyncio.get_running_loop().create_task(channel.disconnect())

    channel.sink = attack


def refuse_some(manager):
    """Answers the requests that no server is for, before bumble does."""
    usual = manager.on_l2cap_le_credit_based_connection_request

    def on_request(connection, cid, request):
        if 0x90 <= request.le_psm <= 0x9F:
            # Built by hand: bumble has no name for results that are reserved.
            data = struct.pack("<HHHHH", 0, 0, 0, 0, request.le_psm & 0x0F)
            frame = struct.pack("<BBH", 0x15, request.identifier, len(data)) + data
            manager.send_pdu(connection, cid, frame)
        elif request.le_psm == 0xA0:
            pass
        elif request.le_psm == 0xA1:
            manager.send_pdu(connection, cid, struct.pack("<BBHH", 0x01, request.identifier, 2, 0))
        else:
            usual(connection, cid, request)

    manager.on_l2cap_le_credit_based_connection_request = on_request


def serve_channels(device):
    def serve(psm, mtu, mps, credits, handler):
        device.create_l2cap_server(
            l2cap.LeCreditBasedChannelSpec(psm=psm, mtu=mtu, mps=mps, max_credits=credits), handler)

    serve(0x80, 512, 100, 8, Echo)
    serve(0x81, 64, 23, 1, Echo)
    for psm in range(0xB0, 0xB6):
        serve(psm, 512, 100, 8, lambda channel: misbehave(channel, channel.psm))
    refuse_some(device.l2cap_channel_manager)


async def main():
    link = LocalLink()
    near = Controller("peer", link=link)
    configuration = DeviceConfiguration(name="channels")
    configuration.address = hci.Address(ADDRESS)
    device = Device(config=configuration, host=Host(near, AsyncPipeSink(near)))
    serve_channels(device)
    await device.power_on()
    await device.start_advertising(auto_restart=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with await open_transport(f"tcp-server:127.0.0.1:{port}") as (source, sink):
        # Without a public address: bumble's link carries data between random addresses only.
        Controller("served", host_source=source, host_sink=sink, link=link)
        print("ready", port, ADDRESS, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
