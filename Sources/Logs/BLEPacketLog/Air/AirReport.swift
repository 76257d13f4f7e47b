public import BLEWire

/// What one side of a connection sent, as far as it was heard.
public struct AirSideCounts: Hashable, Sendable {
  /// Heard with a good CRC, those that were sent again too.
  public internal(set) var packets = 0
  public internal(set) var retransmissions = 0
  /// At least so many were not heard: their sequence numbers are missing, or the counters of the encryption.
  public internal(set) var missed = 0
  public internal(set) var badCRC = 0
  public internal(set) var decrypted = 0
  /// Encrypted, and left so.
  public internal(set) var encrypted = 0
}

/// A connection of a log of the air.
public struct AirLinkReport: Hashable, Sendable {
  /// Why what is encrypted was decrypted or not.
  public enum Encryption: UInt8, Hashable, Sendable {
    case none
    /// By a key that somebody gave or that the log tells.
    case decrypted
    /// The sniffer did it, or the program that wrote the file.
    case bySniffer
    case noKey
    /// Nobody who listens gets a key of Secure Connections.
    case noKeyOfSecureConnections
    /// The log does not show how the encryption began.
    case startNotSeen
    case wrongKey
  }

  /// As the translated packets have it.
  public let handle: ConnectionHandle
  public let accessAddress: UInt32
  /// `nil` where the log does not show how the connection began.
  public internal(set) var central: DeviceAddress?
  public internal(set) var peripheral: DeviceAddress?
  public internal(set) var startTime: ReceiveTime
  public internal(set) var endTime: ReceiveTime
  public internal(set) var fromCentral = AirSideCounts()
  public internal(set) var fromPeripheral = AirSideCounts()
  /// Connection events in which nothing was heard; `nil` where nothing tells.
  public internal(set) var missedEvents: Int?
  /// Data channels in use at the end; `nil` where that is not known.
  public internal(set) var channels: Int?
  /// Packets on channels that are not in use.
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

  /// Of the packets that were sent, the part that had to be sent again; `nil` without packets.
  public var packetErrorRate: Double? { packets == 0 ? nil : Double(retransmissions) / Double(packets) }
}

/// What a log of the air holds, besides what its translated packets say.
public struct AirReport: Hashable, Sendable {
  /// Connections that are reported; later ones are counted.
  static let reported = Limit(
    512, "connections that a log of the air is reported with", by: .file, whenFull: "later ones are counted",
    counted: "`omittedLinks` of `log stats`")

  public internal(set) var packets = 0
  /// By what they are, those with a bad CRC too. A header has so few bits that there are few kinds.
  public internal(set) var kinds: [AirPDU: Int] = [:]
  public internal(set) var badCRC = 0
  /// Frames that are no packets of the air, or less than their header says.
  public internal(set) var unreadable = 0
  public internal(set) var encrypted = 0
  public internal(set) var decrypted = 0
  public internal(set) var retransmissions = 0
  /// Extended advertisements in several packets: those heard to their end, and those of which a packet was not heard.
  public internal(set) var joinedAdvertisements = 0
  public internal(set) var incompleteAdvertisements = 0
  public internal(set) var keysLearnt = 0
  public internal(set) var keysForgotten = 0
  /// In the order in which they ended.
  public internal(set) var links: [AirLinkReport] = []
  public internal(set) var omittedLinks = 0

  mutating func add(_ link: AirLinkReport) {
    if links.count < Self.reported.count { links.append(link) } else { omittedLinks += 1 }
  }
}

extension AirReport {
  /// What a person should know of a log that has packets which nobody can read; `nil` where all were.
  public var remark: String? {
    if encrypted > 0 {
      let advice: String
      switch links.first(where: { $0.fromCentral.encrypted + $0.fromPeripheral.encrypted > 0 })?.encryption {
      case .noKeyOfSecureConnections:
        advice = "nobody who listens gets a key of Secure Connections; give it with --ltk"
      case .wrongKey: advice = "no key fits; give that of the link with --ltk"
      case .startNotSeen: advice = "the log does not show how their encryption began, so that no key helps"
      case .decrypted: advice = "too many packets before them were not heard"
      case .bySniffer:
        advice = "the program that decrypted the others left them so; give the link's key with --ltk"
      default: advice = "give the link's key with --ltk"
      }
      return "\(encrypted) of \(packets) packets are encrypted and stay so: \(advice)"
    }
    if unreadable > 0 {
      return "\(unreadable) of \(packets + unreadable) records are no packets of the air, or are cut"
    }
    return nil
  }
}
