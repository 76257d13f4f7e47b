import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire
import PeripheralKit
import Synchronization
import Testing

/// Sending values in the virtual time of the loop.
extension VirtualDevice {
  private static func value(_ number: Int) -> [UInt8] { [UInt8(number & 0xFF), UInt8(number >> 8)] }

  /// Sends numbered values to each central, 100 a second.
  ///
  /// - Returns: For each central, the time at which the last value was in its queue.
  func push(_ count: Int, of characteristic: BluetoothUUID, by server: GATTServer) async throws -> [Duration]
  {
    let handle = try await server.require(characteristic)
    let start = loop.clock.monotonic()
    return try await withThrowingTaskGroup(of: (Int, Duration).self) { group in
      let centrals = await server.centrals
      for (index, central) in centrals.enumerated() {
        group.addTask(executorPreference: loop.preference) {
          for number in 0..<count {
            let due = start.advanced(by: .milliseconds(10 * number))
            let now = loop.clock.monotonic()
            if due > now { try await loop.wait(for: .nanoseconds((due - now).nanoseconds)) }
            try await server.notify(Self.value(number), of: handle, to: central)
          }
          return (index, .nanoseconds((loop.clock.monotonic() - start).nanoseconds))
        }
      }
      var times = [Duration](repeating: .zero, count: centrals.count)
      for try await (index, time) in group { times[index] = time }
      return times
    }
  }

  /// Expects that all values arrive, in order.
  func expect(_ count: Int, in received: Received) async throws {
    while received.count < count { try await loop.wait(for: .milliseconds(100)) }
    #expect(received.all == (0..<count).map { Self.value($0) })
  }
}

extension GATTServer {
  func require(_ uuid: BluetoothUUID) throws -> AttributeHandle { try #require(handle(of: uuid)) }
}

/// Values in the order in which they arrived.
final class Received: Sendable {
  private let values = Mutex<[[UInt8]]>([])

  var all: [[UInt8]] { values.withLock { $0 } }
  var count: Int { values.withLock { $0.count } }

  func take(_ notification: borrowing HandleValueNotification) {
    let value = [UInt8](encoding: notification.value.count) { $0.append(notification.value) }
    values.withLock { $0.append(value) }
  }
}

extension HostAdapter {
  /// Finds the first advertiser with this name.
  func find(named name: String) async throws -> Advertiser {
    let found = Mutex<Advertiser?>(nil)
    _ = try await Scanner(kind: .active).run(on: self, for: .seconds(10)) { advertiser in
      guard advertiser.name == name else { return .goOn }
      found.withLock { $0 = advertiser }
      return .stop
    }
    return try #require(found.withLock { $0 })
  }
}
