import BLEWire
import ColmiRing

/// What a ring's clock showed while somebody recorded its packets.
struct RingStoryClock: Sendable {
  /// How the ring's clock is read.
  private(set) var calendar: RingCalendar
  /// What it shows ahead of the log's times, in seconds, since the host set it.
  private(set) var offset: Int64?
  private let isGiven: Bool

  /// No zone is farther from UTC.
  private static let farthestZoneSeconds: Int64 = 14 * 3600
  /// Zones differ by these.
  private static let zoneStepSeconds: Int64 = 15 * 60

  /// - Parameter isGiven: whether the calendar stays when the host sets the ring's clock.
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
    // Else the host's clock, or the log's, was never set.
    guard zone.magnitude <= Self.farthestZoneSeconds else { return }
    calendar = RingCalendar { _ in Int32(zone) }
  }

  /// `nil` outside of the years that a ring's clock has.
  func shown(at time: ReceiveTime) -> RingDateTime? {
    guard let offset else { return try? calendar.clock(at: time) }
    return try? RingDateTime(secondsSince1970: time.seconds + offset, convention: .utc)
  }
}

extension ReceiveTime {
  fileprivate var seconds: Int64 { nanoseconds / 1_000_000_000 }
}
