public import BLEWire
public import ColmiRing

extension EmulatedRing {
  /// Properties and faults of a ring.
  public struct Configuration: Hashable, Sendable {
    public var name = "R02_A1B2"
    public var address = DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public)
    /// Advertising interval. Real rings use 1000 ms; the default is shorter to save time.
    public var advertisingInterval = Duration.milliseconds(100)
    /// Raw notifications per second, all three subtypes together; each tick sends one of each. The stock
    /// firmware sends 3, the "faster" patch 12. 300 is faster than any ring, for tests.
    public var notificationsPerSecond = 3.0
    /// Number of raw notifications after which a stream stops by itself; `nil` for no limit.
    public var notificationLimit: Int?
    /// Number of raw notifications on a link after which the link is lost (Connection Timeout); `nil` for
    /// never.
    public var disconnectAfter: Int?
    /// How long the ring advertises after a link; `nil` to advertise until a central connects.
    public var sleepsAfter: Duration?
    /// Probability that an optical frame has no reading, 0 … 1. Does not apply to the first ticks, which were
    /// captured.
    public var dropoutRate = 0.0
    /// The wearer whose light and movement the ring streams after the first ticks, which were captured.
    public var wearer = Wearer.even
    public var body = BodyTime()
    /// Damages every n-th raw notification, alternating between a wrong checksum and truncation.
    public var malformedEvery: Int?
    public var batteryPercent: UInt8 = 64
    /// Whether the ring exchanges MTUs and requests slower connection parameters by itself, as the captured
    /// RT11CR did.
    public var behaviour = Behaviour.active
    /// Stored data; `nil` for a ring that refuses such requests.
    public var history: RingHistory?
    public var features = Features.captured
    /// Time of the clock at the first connection, until the clock is set.
    public var clock: RingDateTime?
    public var replyFaults = RingReplyFaults()
    public var attributes = RingAttributes()

    public enum Features: Hashable, Sendable {
      /// Features of the captured R02: no temperature, no heart rate variability.
      case captured
      case all
    }

    public enum Behaviour: Hashable, Sendable {
      case active
      /// Sends only replies.
      case quiet
    }

    public init() {}
  }
}
