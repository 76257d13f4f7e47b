import BLEEmulation
import BLEStack
import BLEWire
import TestKit
import Testing

/// Manually driven hosts in one virtual air, with a clock that stops at each deadline, so that arrival times
/// are exact.
final class AirBench {
  /// One packet to a host, H4 type byte first.
  struct Packet: Equatable {
    let time: MonotonicTime
    let octets: [UInt8]
    var text: String { hexOf(octets) }
  }

  /// One controller and the packets that its host has received.
  final class Port {
    let controller: VirtualController
    fileprivate(set) var packets: [Packet] = []

    init(_ controller: VirtualController) { self.controller = controller }

    func first(_ start: String) -> Packet? { all(start).first }

    /// Returns the packets that start with these bytes.
    func all(_ start: String) -> [Packet] {
      let start = octetsOf(start)
      return packets.filter { $0.octets.starts(with: start) }
    }
  }

  let air: VirtualAir
  let ports: [Port]
  private(set) var now = MonotonicTime(nanoseconds: 1_000_000_000)

  var host: Port { ports[0] }

  init(
    _ peripherals: [any VirtualPeripheral], _ configuration: VirtualAir.Configuration = .init(pace: .air),
    controllers: [VirtualController.Configuration] = [.init()]
  ) {
    let air = VirtualAir(configuration, peripherals: peripherals)
    self.air = air
    ports = controllers.map { Port(VirtualController($0, in: air)) }
  }

  /// An `EmulatedSource` with its address and an advertising interval of 100 ms.
  static func source(_ byteCount: Int, _ change: (inout EmulatedSource.Configuration) -> Void = { _ in })
    -> EmulatedSource
  {
    var configuration = EmulatedSource.Configuration()
    configuration.payloadByteCount = byteCount
    change(&configuration)
    return EmulatedSource(configuration)
  }

  /// The source's address in transmission order.
  static let sourceAddress = "c050000dcb70"

  func send(_ packet: String, to port: Int = 0) {
    let packet = octetsOf(packet)
    ports[port].controller.receive(packet.span, now: now)
    drain()
  }

  func wait(_ duration: Duration) { wait(until: now.advanced(by: duration)) }

  /// Advances the time, stopping at each deadline.
  func wait(until end: MonotonicTime) {
    while let deadline = air.deadline, deadline <= end {
      now = max(now, deadline)
      air.advance(to: now)
      drain()
    }
    now = end
    air.advance(to: now)
  }

  /// Advances the time in one step, as for a loop that was delayed.
  func oversleep(_ duration: Duration) {
    now = now.advanced(by: duration)
    air.advance(to: now)
    drain()
  }

  /// Advances the time until a host has received a packet with this start, by a minute at most.
  func wait(for start: String, at port: Int = 0) -> Packet? {
    let start = octetsOf(start)
    let seen = ports[port].packets.count
    let end = now.advanced(by: .seconds(60))
    while let deadline = air.deadline, deadline <= end {
      now = max(now, deadline)
      air.advance(to: now)
      drain()
      if let packet = ports[port].packets[seen...].first(where: { $0.octets.starts(with: start) }) {
        return packet
      }
    }
    return nil
  }

  func forget() {
    for port in ports { port.packets = [] }
  }

  private func drain() {
    for port in ports {
      port.controller.drain { packet in
        port.packets.append(Packet(time: now, octets: packet.indices.map { packet[$0] }))
      }
    }
  }

  // MARK: Steps that most tests begin with

  /// Sends Reset, and event masks that enable all events.
  func setUp(_ port: Int = 0) {
    send("01030c00", to: port)
    send("01010c08 ffffffffffffff3f", to: port)
    send("01012008 ff190a0000000000", to: port)
  }

  static func word(_ value: UInt16) -> String { hexOf([UInt8(value & 0xFF), UInt8(value >> 8)]) }

  /// Connects to the source; the link is 0x0040.
  ///
  /// - Parameters:
  ///   - interval: in units of 1.25 ms.
  ///   - timeout: in units of 10 ms.
  func connect(
    interval: UInt16, latency: UInt16 = 0, timeout: UInt16 = 500, to address: String = sourceAddress
  ) throws -> Packet {
    setUp()
    let timing = [interval, interval, latency, timeout].map(Self.word).joined()
    send("010d2019 6000 6000 00 00" + address + "00" + timing + "00000000")
    return try #require(wait(for: "043e1301004000"))
  }

  func att(_ pdu: String) { send(ControllerBench.att(pdu)) }

  /// Sets MTU 247, then writes the CCCD of the only characteristic that notifies.
  func subscribe(_ configurationHandle: UInt16 = 0x000A) throws {
    att("02f700")
    _ = try #require(wait(for: "02402007000300040003"))
    att("12" + Self.word(configurationHandle) + "0100")
  }

  /// The first bytes of an ACL packet with a notification, which start its L2CAP frame.
  static let dataStart = "024020"
}
