import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CTestSystem
import Foundation
import Testing

/// A kernel without receive timestamps, such as qemu-user, under our own host.
@Suite(.timeLimit(.minutes(1))) struct UntoldFactsLinkTests {
  private func transport(
    _ loop: EventLoop, over descriptor: consuming FileDescriptor
  ) throws -> any PacketTransport {
    for option in [SO_TIMESTAMPNS, SO_RXQ_OVFL, SO_MEMINFO] { test_lack(SOL_SOCKET, option) }
    defer { test_lack_nothing() }
    return try loop.transport(over: descriptor, .datagrams)
  }

  @Test func takesTheTimeOfArrival() async throws {
    let loop = try EventLoop.start()
    let controller = VirtualController(
      VirtualController.Configuration(), peripherals: [EmulatedRing(quietRing())],
      air: VirtualAir.Configuration(pace: .immediate))
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(
      controller, to: pair.takeController(), .datagrams, on: nil)
    let adapter = try await HostAdapter.open(
      try transport(loop, over: pair.takeHost()), name: "virtual", on: loop)
    let link = VirtualLink(loop: loop, adapter: adapter, emulation: emulation)
    let connection = try await link.adapter.connect(
      to: quietRing().address, asking: LinkRequest(), timeout: .seconds(5), tap: nil)
    let database = try await connection.discover()
    #expect(database.services.count == 5)
    let statistics = await connection.statistics
    #expect(statistics.received > 0 && statistics.withoutKernelStamp == statistics.received)
    #expect(statistics.kernelQueueDrops == 0)
    #expect(await link.adapter.faults == 0)
    await link.close()
  }
}
