import BLEStack
import BLEWire

/// Where a ring has its attributes, what tells a central of their changes, and when they change.
public struct RingAttributes: Hashable, Sendable {
  public enum Kind: String, Hashable, Sendable, CaseIterable {
    /// As captured (reference, 1.2): Service Changed, no hash.
    case captured
    /// Neither: by the specification they never change.
    case lasting
    /// Service Changed, Database Hash and Client Supported Features.
    case hashed
  }

  /// What becomes of them, once. All of it is what new firmware may do.
  public enum Move: String, Hashable, Sendable, CaseIterable {
    /// The ring's services are 32 handles further: nothing is where they were.
    case away
    /// Its two services change places: other attributes are where theirs were.
    case swapped
  }

  public enum Moment: Hashable, Sendable {
    case never
    /// When the first link has ended.
    case betweenLinks
    /// After so many raw notifications of a link.
    case afterNotifications(Int)
  }

  /// Which characteristic brings raw frames.
  public enum StreamChannel: String, Hashable, Sendable, CaseIterable {
    case replies
    /// As some rings have it (reference, 5).
    case bigData = "big-data"
  }

  public var kind = Kind.captured
  public var streamChannel = StreamChannel.replies
  public var move = Move.away
  public var moment = Moment.never

  public init() {}

  /// First handles of the ring's services.
  struct Places: Hashable, Sendable {
    var command = AttributeHandle(0x000E)
    var bigData = AttributeHandle(0x0014)
    var information = AttributeHandle(0x001A)

    // Of each service first the value that is written, then the one that is notified.
    var commandValue: AttributeHandle { AttributeHandle(command.rawValue + 2) }
    var reply: AttributeHandle { AttributeHandle(command.rawValue + 4) }
    var bigDataValue: AttributeHandle { AttributeHandle(bigData.rawValue + 2) }
    var bigDataReply: AttributeHandle { AttributeHandle(bigData.rawValue + 4) }
  }

  func places(isMoved: Bool) -> Places {
    guard isMoved else { return Places() }
    switch move {
    case .away:
      return Places(
        command: AttributeHandle(0x002E), bigData: AttributeHandle(0x0034),
        information: AttributeHandle(0x003A))
    case .swapped: return Places(command: AttributeHandle(0x0014), bigData: AttributeHandle(0x000E))
    }
  }

  /// The Generic Attribute service.
  var generic: GATTServiceDescription {
    typealias Characteristic = GATTCharacteristicDescription
    let changed = Characteristic(.serviceChanged, .indicate, value: [1, 0, 0xFF, 0xFF])
    let characteristics: [Characteristic] =
      switch kind {
      case .captured: [changed]
      case .lasting: []
      case .hashed:
        [
          changed, Characteristic(.clientSupportedFeatures, [.read, .write], value: [0]),
          Characteristic(.databaseHash, .read),
        ]
      }
    // What comes behind is where it is, whatever is in here.
    return GATTServiceDescription(
      .genericAttribute, endHandle: kind == .hashed ? nil : AttributeHandle(0x0004),
      characteristics: characteristics)
  }
}
