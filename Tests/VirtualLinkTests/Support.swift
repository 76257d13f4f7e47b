import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import Foundation

/// Our host, and a virtual controller with rings in its range, in this process, through a packet socket.
struct VirtualLink {
  let loop: EventLoop
  let adapter: HostAdapter
  let emulation: ControllerAttachment

  /// - Parameters:
  ///   - clock: a virtual clock is used by both sides.
  ///   - wrap: wraps the transport.
  static func open(
    _ rings: [EmulatedRing.Configuration], _ configuration: VirtualController.Configuration = .init(),
    pace: VirtualAir.Pace = .immediate, clock: LoopClock = .system,
    wrap: @Sendable (any PacketTransport) -> any PacketTransport = { $0 }
  ) async throws -> VirtualLink {
    try await open(configuration, pace: pace, clock: clock, wrap: wrap) { rings.map { EmulatedRing($0) } }
  }

  /// Opens a link to any peripherals.
  static func open(
    _ configuration: VirtualController.Configuration = .init(), pace: VirtualAir.Pace = .immediate,
    clock: LoopClock = .system,
    wrap: @Sendable (any PacketTransport) -> any PacketTransport = { $0 },
    peripherals: @Sendable () -> [any VirtualPeripheral]
  ) async throws -> VirtualLink {
    let loop = try EventLoop.start(clock: clock)
    let controller = VirtualController(
      configuration, peripherals: peripherals(), air: VirtualAir.Configuration(pace: pace))
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(
      controller, to: pair.takeController(), .datagrams, on: clock.isVirtual ? loop : nil)
    let transport = wrap(try loop.transport(over: pair.takeHost(), .datagrams))
    do {
      let adapter = try await HostAdapter.open(transport, name: "virtual", on: loop)
      return VirtualLink(loop: loop, adapter: adapter, emulation: emulation)
    } catch {
      await emulation.detach()
      loop.stop()
      throw error
    }
  }

  func close() async {
    await adapter.close()
    await emulation.detach()
    loop.stop()
  }
}

/// A ring that responds at once and requests nothing.
func quietRing(
  number: UInt64 = 1, rate: Double = 300, malformedEvery: Int? = nil
) -> EmulatedRing.Configuration {
  var ring = EmulatedRing.Configuration()
  ring.address = DeviceAddress(bits: 0x70CB_0D00_0000 + number, type: .public)
  let digits = String(number, radix: 16, uppercase: true)
  ring.name = "R02_" + String(repeating: "0", count: 4 - digits.count) + digits
  ring.notificationsPerSecond = rate
  ring.malformedEvery = malformedEvery
  ring.advertisingInterval = .milliseconds(20)
  ring.behaviour = .quiet
  return ring
}

/// Number of this process's descriptors of the kinds that an adapter, a loop and an emulation open.
func openDescriptors() throws -> Int {
  let folder = "/proc/self/fd"
  return try FileManager.default.contentsOfDirectory(atPath: folder).count { name in
    let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(name)")
    return ["socket:", "anon_inode:[eventpoll]", "anon_inode:[eventfd]"].contains {
      target?.hasPrefix($0) ?? false
    }
  }
}
