import BLEStack
import BLEWire

/// Handles of a ring's attributes, with their possible change: how the ring reports it, and when it happens.
public struct RingAttributes: Hashable, Sendable {
  public enum Kind: String, Hashable, Sendable, CaseIterable {
    /// As captured from a ring (reference, 1.2): with Service Changed, without Database Hash.
    case captured
    /// Neither Service Changed nor Database Hash. By the specification, such attributes never change.
    case lasting
    /// With Service Changed, Database Hash and Client Supported Features.
    case hashed
  }

  /// The single change of the attributes, such as new firmware might cause.
  public enum Move: String, Hashable, Sendable, CaseIterable {
    /// The ring's services move by 32 handles, so that no attribute has an old handle.
    case away
    /// The ring's two services swap places, so that other attributes have the old handles.
    case swapped
  }

  public enum Moment: Hashable, Sendable {
    case never
    /// The attributes change after the first link has ended.
    case betweenLinks
    /// The attributes change after this number of raw notifications on a link.
    case afterNotifications(Int)
  }

  /// Characteristic that sends raw frames.
  public enum StreamChannel: String, Hashable, Sendable, CaseIterable {
    case replies
    /// The big data channel, as in some rings (reference, 5).
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

    // In each service, the characteristic for writes precedes the characteristic for notifications.
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
    // The following services keep their handles, whatever the Generic Attribute service contains.
    return GATTServiceDescription(
      .genericAttribute, endHandle: kind == .hashed ? nil : AttributeHandle(0x0004),
      characteristics: characteristics)
  }
}
