package import BLEWire

/// Durations and time units of the link layer.
enum AirTiming {
  /// T_IFS: time from the end of a packet to the start of the next packet, in nanoseconds. Core 5.4, Vol 6,
  /// Part B, 4.1.1.
  static let interFrameSpace: Int64 = 150_000
  /// Time from the end of CONNECT_IND to the first transmit window, in nanoseconds. Core 5.4, Vol 6, Part B,
  /// 4.5.3.
  static let transmitWindowDelay: Int64 = 1_250_000
  /// Payload length of CONNECT_IND in bytes. Core 5.4, Vol 6, Part B, 2.3.3.1.
  static let connectRequestByteCount = 34
  /// Unit of a link's interval, in nanoseconds.
  static let intervalUnit: Int64 = 1_250_000
  /// Unit of a link's supervision timeout, in nanoseconds.
  static let timeoutUnit: Int64 = 10_000_000
  /// Maximum random delay between advertisements, in nanoseconds. Core 5.4, Vol 6, Part B, 4.4.2.2.1.
  static let maximumAdvertisingDelay: Int64 = 10_000_000
  /// Number of events without a packet after which a new link is closed. Core 5.4, Vol 6, Part B, 4.5.2.
  static let establishingEvents: Int64 = 6
  /// Minimum number of events between the packet that announces a change of the link and the change itself.
  ///
  /// Core 5.4, Vol 6, Part B, 5.1.1: six events that the peripheral listens to.
  static let eventsToInstant = 6
}

extension LEPHY {
  /// Returns the duration of one packet in nanoseconds: preamble, access address, header, payload, CRC. Core
  /// 5.4, Vol 6, Part B, 2.1.
  func airTime(payload byteCount: Int) -> Int64 {
    switch self {
    case .le2M: Int64(2 + 4 + 2 + byteCount + 3) * 4000
    // The coded PHY is not supported.
    case .le1M, .leCoded: Int64(1 + 4 + 2 + byteCount + 3) * 8000
    }
  }
}

/// Maximum length of a data packet in one direction. Core 5.4, Vol 6, Part B, 4.5.10.
struct DataLength: Hashable {
  /// Payload, in bytes; 27 … 251.
  var octets: UInt16
  /// Duration of a packet with its message integrity check, in µs; 328 … 2120.
  var time: UInt16

  static let minimum = DataLength(octets: 27, time: 328)
  static let maximum = DataLength(octets: 251, time: 2120)

  /// Returns the lower payload size and the lower duration of both limits.
  func limited(to other: DataLength) -> DataLength {
    DataLength(octets: min(octets, other.octets), time: min(time, other.time))
  }

  /// The values clamped to the ranges of the specification.
  var clamped: DataLength {
    DataLength(octets: min(max(octets, 27), 251), time: min(max(time, 328), 2120))
  }

  /// Returns the number of payload bytes that both limits allow on this PHY. The result is at least 27.
  func byteCount(on phy: LEPHY) -> Int {
    // The maximum duration includes four bytes of integrity check, even if they are not sent.
    let fitting = phy == .le2M ? Int(time) / 4 - 15 : Int(time) / 8 - 14
    return max(27, min(Int(octets), fitting))
  }
}

extension MonotonicTime {
  package func advanced(nanoseconds more: Int64) -> MonotonicTime {
    MonotonicTime(nanoseconds: nanoseconds + more)
  }
}

/// A generator of pseudorandom numbers, xorshift64*. The seed determines the numbers, so that all runs are
/// equal. Not for keys.
struct AirRandom {
  private var state: UInt64

  /// Creates a generator.
  ///
  /// - Parameter seed: any value; 0 is replaced.
  init(seed: UInt64 = 0x9E37_79B9_7F4A_7C15) { state = seed == 0 ? 1 : seed }

  mutating func next() -> UInt64 {
    state ^= state >> 12
    state ^= state << 25
    state ^= state >> 27
    return state &* 0x2545_F491_4F6C_DD1D
  }

  /// Returns a random number in 0 … `limit`.
  mutating func next(through limit: Int64) -> Int64 { Int64(next() >> 1) % (limit + 1) }

  /// Returns `true` with this probability.
  mutating func happens(_ probability: Double) -> Bool {
    Double(next() >> 11) * 0x1p-53 < probability
  }
}
