public import BLEWire
public import ColmiRing

extension EmulatedRing {
  /// Properties and faults of a ring.
  public struct Configuration: Hashable, Sendable {
    public var name = "R02_A1B2"
    public var address = DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public)
    /// Real rings use 1000 ms; shorter here to save time.
    public var advertisingInterval = Duration.milliseconds(100)
    /// Raw notifications per second, all three subtypes together; each tick sends one of each. 3 is the stock
    /// firmware, 12 the "faster" patch; 300 exceeds every ring and serves as a test.
    public var notificationsPerSecond = 3.0
    /// Number of raw notifications after which a stream stops by itself; `nil` for none.
    public var notificationLimit: Int?
    /// Number of raw notifications on a link after which the link is lost (Connection Timeout); `nil` for
    /// never.
    public var disconnectAfter: Int?
    /// How long it advertises after a link; `nil` for until a central connects.
    public var sleepsAfter: Duration?
    /// Probability that an optical frame has no reading, 0 … 1; the first ticks, which were captured, always
    /// have one.
    public var dropoutRate = 0.0
    /// The wearer whose light and movement it streams after the first ticks, which were captured.
    public var wearer = Wearer.even
    public var body = BodyTime()
    /// Damages every n-th raw notification, alternating between a wrong checksum and truncation.
    public var malformedEvery: Int?
    public var batteryPercent: UInt8 = 64
    /// Whether it exchanges MTUs and requests slower connection parameters by itself, as the captured RT11CR
    /// did.
    public var behaviour = Behaviour.active
    /// The stored data; `nil` for a ring that refuses such requests.
    public var history: RingHistory?
    public var features = Features.captured
    /// The clock's time at the first connection, until it is set.
    public var clock: RingDateTime?
    public var replyFaults = RingReplyFaults()
    public var attributes = RingAttributes()

    public enum Features: Hashable, Sendable {
      /// Those of the captured R02: no temperature, no heart rate variability.
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
