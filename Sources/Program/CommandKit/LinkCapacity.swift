package import BLEHost
import BLEWire

/// What a link allows by the specification's arithmetic: data packets, T_IFS, empty packets, T_IFS, as many as fit the
/// interval. Core 5.4, Vol 6, Part B, 2.1 and 4.1.1.
package struct LinkCapacity: Hashable, Sendable {
  /// T_IFS in microseconds.
  private static let spacing = 150.0
  /// Microseconds of an octet's eight symbols, and octets around a payload: preamble, access address, header, CRC.
  private let octetMicroseconds: Double
  private let overheadOctets: Int
  let dataLength: Int
  /// In milliseconds.
  let interval: Double

  package init(isLE2M: Bool, dataLength: Int, interval: Double) {
    octetMicroseconds = isLE2M ? 4 : 8
    overheadOctets = isLE2M ? 11 : 10
    self.dataLength = dataLength
    self.interval = interval
  }

  /// Of a link as far as it is known; `nil` where its timing is not, or its PHY is neither LE 1M nor LE 2M.
  ///
  /// What a controller does not tell is as after connecting: LE 1M, 27 octets. Core 5.4, Vol 6, Part B, 4.5.10.
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

  /// Notifications a second with so many octets of value.
  package func notificationsPerSecond(payload: Int) -> Double {
    // 3 octets of ATT and 4 of L2CAP before the value.
    var rest = payload + 7
    var cycle = 0.0
    while rest > 0 {
      cycle += microseconds(min(rest, dataLength)) + Self.spacing + microseconds(0) + Self.spacing
      rest -= dataLength
    }
    // Whole packets only: one that is cut in pieces may go on in the next connection event.
    return payload + 7 <= dataLength
      ? (interval * 1000 / cycle).rounded(.down) * 1000 / interval : 1_000_000 / cycle
  }

  private func microseconds(_ octets: Int) -> Double { Double(overheadOctets + octets) * octetMicroseconds }
}
