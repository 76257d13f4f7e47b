package import BLELinux
package import BLEWire
package import Recording
import Synchronization

/// Numbered notifications at an even rate instead of the kernel's records, to test that a log loses none.
package final class SyntheticSource: RecordSource {
  /// ACL data from the controller on handle 0x0040: an ATT notification of attribute 0x0010. A number of four
  /// bytes, little-endian, follows. Core 5.4, Vol 4, Part E, 5.4.2 and Vol 3, Part F, 3.4.7.1.
  private static let start: [UInt8] = [
    0x40, 0x20, 0x0B, 0x00, 0x07, 0x00, 0x04, 0x00, 0x1B, 0x10, 0x00,
  ]
  /// `BTSnoopMonitorOpcode`: ACL data, received.
  private static let opcode: UInt16 = 5
  private static let pauseMilliseconds = 10

  private let ratePerSecond: Int
  private let onPush: @Sendable (Int, MonotonicTime) -> Void
  private let pause: WakeEvent
  private let isStopping = Atomic<Bool>(false)

  /// - Parameter onPush: called with the number of packets passed on so far, and the time.
  package init(
    ratePerSecond: Int, _ onPush: @escaping @Sendable (Int, MonotonicTime) -> Void
  ) throws(SystemError) {
    self.ratePerSecond = ratePerSecond
    self.onPush = onPush
    pause = try WakeEvent()
  }

  package func start(into writer: PacketLogFile, onEnd: @escaping @Sendable () -> Void) throws(SystemError) {
    try SystemThread.start(named: "ringtap-source") { self.run(writer) }
  }

  package func close() async {
    isStopping.store(true, ordering: .sequentiallyConsistent)
    pause.signal()
  }

  private func run(_ writer: PacketLogFile) {
    let begin = SystemClock.monotonic().nanoseconds
    var packet = Self.start + [0, 0, 0, 0]
    var pushed = 0
    while !isStopping.load(ordering: .sequentiallyConsistent) {
      let now = SystemClock.monotonic()
      let due =
        TimeSpan(from: begin, to: now.nanoseconds).nanoseconds / 1_000 * Int64(ratePerSecond) / 1_000_000
      if pushed < Int(due) {
        while pushed < Int(due) {
          for octet in 0..<4 {
            packet[Self.start.count + octet] = UInt8(truncatingIfNeeded: pushed >> (8 * octet))
          }
          writer.push(opcode: Self.opcode, adapter: 0, time: SystemClock.now(), packet.span)
          pushed += 1
        }
        writer.signal()
        onPush(pushed, SystemClock.monotonic())
      }
      pause.sleep(milliseconds: Self.pauseMilliseconds) {
        !isStopping.load(ordering: .sequentiallyConsistent)
      }
    }
  }
}
