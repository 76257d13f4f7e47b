package import BLEHost
import BLEWire

/// Maximum throughput of a link, calculated from the specification: the number of sequences of data packet,
/// T_IFS, empty packet and T_IFS that fit into the connection interval. Core 5.4, Vol 6, Part B, 2.1 and
/// 4.1.1.
package struct LinkCapacity: Hashable, Sendable {
  /// T_IFS in microseconds.
  private static let spacing = 150.0
  /// Duration of one byte (eight symbols) in microseconds.
  private let octetMicroseconds: Double
  /// Number of bytes around a payload: preamble, access address, header and CRC.
  private let overheadOctets: Int
  let dataLength: Int
  /// Connection interval in milliseconds.
  let interval: Double

  package init(isLE2M: Bool, dataLength: Int, interval: Double) {
    octetMicroseconds = isLE2M ? 4 : 8
    overheadOctets = isLE2M ? 11 : 10
    self.dataLength = dataLength
    self.interval = interval
  }

  /// Computes the capacity of a link; `nil` if the link's timing is unknown, or its PHY is neither LE 1M nor
  /// LE 2M.
  ///
  /// Parameters that the controller has not reported are assumed to have their initial values: LE 1M and 27
  /// bytes. Core 5.4, Vol 6, Part B, 4.5.10.
  package init?(_ link: LinkState) {
    guard let timing = link.timing else { return nil }
    switch link.receivePHY {
    case nil, .le1M:
      self.init(
        isLE2M: false, dataLength: Int(link.receiveOctets ?? 27), interval: timing.intervalMilliseconds)
    case .le2M:
      self.init(
        isLE2M: true, dataLength: Int(link.receiveOctets ?? 27), interval: timing.intervalMilliseconds)
    case .leCoded: return nil
    }
  }

  /// Returns the maximum number of notifications per second with values of this many bytes.
  package func notificationsPerSecond(payload: Int) -> Double {
    // An ATT header of 3 bytes and an L2CAP header of 4 bytes precede the value.
    var rest = payload + 7
    var cycle = 0.0
    while rest > 0 {
      cycle += microseconds(min(rest, dataLength)) + Self.spacing + microseconds(0) + Self.spacing
      rest -= dataLength
    }
    // A notification that fits into one packet is not split across connection events. A fragmented
    // notification may be split.
    return payload + 7 <= dataLength
      ? (interval * 1000 / cycle).rounded(.down) * 1000 / interval : 1_000_000 / cycle
  }

  private func microseconds(_ octets: Int) -> Double { Double(overheadOctets + octets) * octetMicroseconds }
}
