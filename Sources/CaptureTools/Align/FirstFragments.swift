import BLECore
import BLELinux
import BLEPacketLog
import BLEWire
import CaptureTables
import JSONText

/// When the first fragment of each packet came that was complete at a time, by a capture's packet log.
///
/// A notification that is longer than the link's data length is sent in fragments, which may take several connection events; its
/// stamp is that of the last one.
struct FirstFragments {
  /// Nanoseconds since the Unix epoch, to microseconds, as btsnoop has them.
  private var starts: [Int64: Int64] = [:]
  private var start: Int64?
  private var missing = 0

  private static let grain: Int64 = 1_000

  /// - Returns: `nil` if the capture has no packet log that can be read.
  static func read(of capture: RecordedCapture) -> FirstFragments? {
    let names = [capture.session?["packetLog"]?.text, "packets.btsnoop", "packets.pcapng"]
    let paths = names.compactMap(\.self).filter { !$0.contains("/") }.map { "\(capture.directory)/\($0)" }
    guard let path = paths.first(where: { Files.exists($0) }) else { return nil }
    var fragments = FirstFragments()
    do throws(ReportError) {
      // A log that ends early has the rest all the same.
      _ = try LogFile.read(path, progress: { _ in }) { record in
        guard record.type == .acl, record.direction == .controllerToHost else { return }
        fragments.take(record.packet, at: record.time.nanoseconds)
      }
    } catch { return nil }
    return fragments
  }

  /// Header, then length and channel of a packet's first fragment: Core 5.4, Vol 4, Part E, 5.4.2, and Vol 3, Part A, 3.1.
  private mutating func take(_ packet: Span<UInt8>, at time: Int64) {
    guard packet.count >= 4 else { return }
    if packet[1] >> 4 & 0b11 != 0b01 {
      guard packet.count >= 8 else { return }
      start = time
      missing = Int(packet[4]) + Int(packet[5]) << 8 + 4
    }
    missing -= packet.count - 4
    if missing <= 0, let start {
      starts[time / Self.grain] = start
      self.start = nil
    }
  }

  /// When the first fragment came of what was complete then: nanoseconds since the Unix epoch.
  func start(ofStamp stamp: Int64) -> Int64 { starts[stamp / Self.grain].map { min($0, stamp) } ?? stamp }
}
