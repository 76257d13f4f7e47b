import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Foundation
import SensorSessions
import TestKit

/// A ring that answers recorded requests with the recorded replies, and no others.
final class RecordedRing: VirtualPeripheral {
  struct Exchange: Sendable {
    /// The exact bytes that a host wrote.
    let request: [UInt8]
    let replies: [[UInt8]]
    /// Whether the request uses the big data channel: it begins with this byte. All others use the command
    /// channel.
    var isBigData: Bool { request.first == 0xBC }
  }

  static let address = DeviceAddress(bits: 0x70CB_0D00_0001, type: .public)
  // From captures CAP1 and CAP2 (reference, 1.2).
  private static let (commands, replies) = (AttributeHandle(0x0010), AttributeHandle(0x0012))
  private static let (messages, answers) = (AttributeHandle(0x0016), AttributeHandle(0x0018))

  private let model: EmulatedRing
  private let script: [Exchange]

  init(_ script: [Exchange]) {
    var configuration = quietRing()
    configuration.address = Self.address
    model = EmulatedRing(configuration)
    self.script = script
  }

  var advertisement: Advertisement? { model.advertisement }
  var services: [GATTServiceDescription] { model.services }

  func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {
    guard handle == Self.commands || handle == Self.messages, let octets = link.database.value(of: handle)
    else { return }
    guard let exchange = script.first(where: { $0.request == octets }) else { return }
    for reply in exchange.replies {
      // Replies that begin like big data, and the pieces that follow, are sent on its channel.
      link.push(of: handle == Self.messages ? Self.answers : Self.replies, value: reply.span)
    }
  }
}

/// Opens a link and a conversation on it in virtual time, runs `body`, and closes both.
@discardableResult
func withConversation<Value: Sendable>(
  _ address: DeviceAddress, patience: Duration = RingConversation.defaultPatience,
  clock: ReceiveTime = ReceiveTime(nanoseconds: 1_765_493_657_000_000_000),
  peripherals: @Sendable () -> [any VirtualPeripheral],
  wrap: @Sendable (any PacketTransport) -> any PacketTransport = { $0 },
  _ body: @escaping @Sendable (RingConversation) async throws -> Value
) async throws -> Value {
  let link = try await VirtualLink.open(clock: .virtual(from: clock), wrap: wrap, peripherals: peripherals)
  do {
    let value = try await withTaskExecutorPreference(link.loop.preference) {
      let connection = try await link.adapter.connect(
        to: address, asking: LinkRequest(), timeout: .seconds(5), tap: nil)
      let ring = try await RingConversation.begin(on: connection, patience: patience)
      let value = try await body(ring)
      await connection.close()
      return value
    }
    await link.close()
    return value
  } catch {
    await link.close()
    throw error
  }
}

/// Opens a conversation with an emulated ring that has stored a week. Its clock shows 2025-12-11 22:54:17,
/// like the host's in UTC.
@discardableResult
func withStoredRing<Value: Sendable>(
  _ change: @Sendable (inout EmulatedRing.Configuration) -> Void = { _ in },
  _ body: @escaping @Sendable (RingConversation) async throws -> Value
) async throws -> Value {
  var ring = quietRing()
  ring.history = RingHistory()
  ring.features = .all
  ring.clock = try storedRingClock()
  change(&ring)
  let configuration = ring
  return try await withConversation(ring.address, peripherals: { [EmulatedRing(configuration)] }, body)
}

func storedRingClock() throws -> RingDateTime {
  try RingDateTime(date: RingDate(year: 2025, month: 12, day: 11), hour: 22, minute: 54, second: 17)
}
