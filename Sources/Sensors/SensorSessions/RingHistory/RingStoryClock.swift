import BLEWire
import ColmiRing

/// Time shown by a ring's clock during a recording.
struct RingStoryClock: Sendable {
  /// Time zone of the ring's clock.
  private(set) var calendar: RingCalendar
  /// Offset of the ring's clock from the log's, in seconds, since the host set it.
  private(set) var offset: Int64?
  private let isGiven: Bool

  /// Maximum offset of a time zone from UTC.
  private static let farthestZoneSeconds: Int64 = 14 * 3600
  /// Offsets of time zones are multiples of this.
  private static let zoneStepSeconds: Int64 = 15 * 60

  /// - Parameter isGiven: whether to keep the calendar when the host sets the ring's clock.
  init(calendar: RingCalendar, isGiven: Bool) {
    self.calendar = calendar
    self.isGiven = isGiven
  }

  mutating func set(to shown: RingDateTime, at time: ReceiveTime) {
    let offset = Int64(shown.timestamp) - time.seconds
    self.offset = offset
    guard !isGiven else { return }
    let steps = Int64((Double(offset) / Double(Self.zoneStepSeconds)).rounded())
    let zone = steps * Self.zoneStepSeconds
    // A larger offset means that the host's clock or the log's was never set.
    guard zone.magnitude <= Self.farthestZoneSeconds else { return }
    calendar = RingCalendar { _ in Int32(zone) }
  }

  /// Time that the ring's clock shows at an instant; `nil` outside its range of years.
  func shown(at time: ReceiveTime) -> RingDateTime? {
    guard let offset else { return try? calendar.clock(at: time) }
    return try? RingDateTime(secondsSince1970: time.seconds + offset, convention: .utc)
  }
}

extension ReceiveTime {
  fileprivate var seconds: Int64 { nanoseconds / 1_000_000_000 }
}
