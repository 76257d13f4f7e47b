public import BLEWire

/// Packets of one side of a connection that the sniffer received.
public struct AirSideCounts: Hashable, Sendable {
  /// Number of packets with a good CRC, including retransmissions.
  public internal(set) var packets = 0
  public internal(set) var retransmissions = 0
  /// Minimum number of packets that the sniffer missed, according to gaps in sequence numbers or encryption
  /// counters.
  public internal(set) var missed = 0
  public internal(set) var badCRC = 0
  public internal(set) var decrypted = 0
  /// Number of encrypted packets that could not be decrypted.
  public internal(set) var encrypted = 0
}

/// A connection in a sniffer log.
public struct AirLinkReport: Hashable, Sendable {
  /// Result of decryption, with the reason for a failure.
  public enum Encryption: UInt8, Hashable, Sendable {
    case none
    /// Decrypted with a key from the user or from the log.
    case decrypted
    /// Decrypted by the sniffer, or by the program that wrote the file.
    case bySniffer
    case noKey
    /// Not decrypted because of LE Secure Connections, whose keys cannot be derived from a capture.
    case noKeyOfSecureConnections
    /// Not decrypted because the log does not contain the start of encryption.
    case startNotSeen
    case wrongKey
  }

  /// Connection handle in the translated packets.
  public let handle: ConnectionHandle
  public let accessAddress: UInt32
  /// Address of the central; `nil` if the log does not contain the start of the connection.
  public internal(set) var central: DeviceAddress?
  public internal(set) var peripheral: DeviceAddress?
  public internal(set) var startTime: ReceiveTime
  public internal(set) var endTime: ReceiveTime
  public internal(set) var fromCentral = AirSideCounts()
  public internal(set) var fromPeripheral = AirSideCounts()
  /// Number of connection events without a received packet; `nil` if unknown.
  public internal(set) var missedEvents: Int?
  /// Number of data channels in use at the end; `nil` if unknown.
  public internal(set) var channels: Int?
  /// Number of packets on channels that are not in use.
  public internal(set) var packetsOffMap = 0
  public internal(set) var encryption = Encryption.none

  init(_ handle: ConnectionHandle, _ accessAddress: UInt32, at time: ReceiveTime) {
    self.handle = handle
    self.accessAddress = accessAddress
    startTime = time
    endTime = time
  }

  public var packets: Int { fromCentral.packets + fromPeripheral.packets }
  public var retransmissions: Int { fromCentral.retransmissions + fromPeripheral.retransmissions }

  /// Fraction of packets that were retransmitted; `nil` without packets.
  public var packetErrorRate: Double? { packets == 0 ? nil : Double(retransmissions) / Double(packets) }
}

/// Information in a sniffer log that the translated packets do not contain.
public struct AirReport: Hashable, Sendable {
  /// Maximum number of connections in the report. Later connections are only counted.
  static let reported = Limit(
    512, "connections in the report of an air log", by: .file, whenFull: "later ones are counted",
    counted: "`omittedLinks` of `log stats`")

  public internal(set) var packets = 0
  /// Number of packets by type, including packets with a bad CRC. The number of types is small because
  /// headers have few bits.
  public internal(set) var kinds: [AirPDU: Int] = [:]
  public internal(set) var badCRC = 0
  /// Number of frames that are not air packets, or are shorter than their header claims.
  public internal(set) var unreadable = 0
  public internal(set) var encrypted = 0
  public internal(set) var decrypted = 0
  public internal(set) var retransmissions = 0
  /// Number of complete extended advertisements of several packets.
  public internal(set) var joinedAdvertisements = 0
  /// Number of extended advertisements with a missing packet.
  public internal(set) var incompleteAdvertisements = 0
  public internal(set) var keysLearnt = 0
  public internal(set) var keysForgotten = 0
  /// Connections in the order in which they ended.
  public internal(set) var links: [AirLinkReport] = []
  public internal(set) var omittedLinks = 0

  mutating func add(_ link: AirLinkReport) {
    if links.count < Self.reported.count { links.append(link) } else { omittedLinks += 1 }
  }
}

extension AirReport {
  /// Remark for the user about packets that could not be decrypted or read; `nil` if all packets were
  /// decrypted and read.
  public var remark: String? {
    if encrypted > 0 {
      let advice: String
      switch links.first(where: { $0.fromCentral.encrypted + $0.fromPeripheral.encrypted > 0 })?.encryption {
      case .noKeyOfSecureConnections:
        advice = "Secure Connections keys cannot be derived from a capture; give the key with --ltk"
      case .wrongKey: advice = "no key fits; give the link's key with --ltk"
      case .startNotSeen: advice = "the log does not contain the start of their encryption, so no key helps"
      case .decrypted: advice = "too many packets before them were missed"
      case .bySniffer:
        advice = "the program that decrypted the others did not decrypt them; give the link's key with --ltk"
      default: advice = "give the link's key with --ltk"
      }
      return "\(encrypted) of \(counted(packets, "packet")) could not be decrypted: \(advice)"
    }
    if unreadable > 0 {
      return "\(unreadable) of \(counted(packets + unreadable, "record")) "
        + (unreadable == 1
          ? "is truncated, or is not a packet from the air"
          : "are truncated, or are not packets from the air")
    }
    return nil
  }
}
