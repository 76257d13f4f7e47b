public import BLEWire
public import ColmiRing

extension EmulatedRing {
  /// What a ring is, and how well it behaves.
  public struct Configuration: Hashable, Sendable {
    public var name = "R02_A1B2"
    public var address = DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public)
    /// Real rings take 1000 ms; shorter here, so that nobody waits.
    public var advertisingInterval = Duration.milliseconds(100)
    /// Raw notifications a second over all three subtypes, which follow one another in each tick.
    /// 3 is the stock firmware, 12 the "faster" patch, 300 no ring at all but a good test.
    public var notificationsPerSecond = 3.0
    /// Raw notifications after which a stream stops by itself; `nil` for none.
    public var notificationLimit: Int?
    /// Raw notifications of one link after which the link is lost (Connection Timeout); `nil` for never.
    public var disconnectAfter: Int?
    /// It advertises for so long after a link, and then no more; `nil`: until a central comes.
    public var sleepsAfter: Duration?
    /// How likely a frame of the light has no reading, 0 … 1; the first ticks, which were captured, have one.
    public var dropoutRate = 0.0
    /// Whose light and movement it streams; the first ticks were captured.
    public var wearer = Wearer.even
    public var body = BodyTime()
    /// Each so-many-th raw notification is broken, by turns with a wrong checksum and cut short.
    public var malformedEvery: Int?
    public var batteryPercent: UInt8 = 64
    /// Whether it exchanges MTUs and asks for slower connection parameters by itself, as the captured RT11CR did.
    public var behaviour = Behaviour.active
    /// What it has stored; `nil` for a ring that refuses to tell.
    public var history: RingHistory?
    public var features = Features.captured
    /// What its clock shows at the first connection, until it is set.
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
      /// Sends nothing that it was not asked for.
      case quiet
    }

    public init() {}
  }
}
