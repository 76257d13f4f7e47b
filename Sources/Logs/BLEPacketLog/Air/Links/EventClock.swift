import BLEWire

/// Counts the events of a connection, by the sniffer's counter or by the time, and determines the time at
/// which agreed changes take effect.
///
/// Core 5.4, Vol 6, Part B, 4.5.1 and 5.5.
struct EventClock {
  /// Number of the current event; `nil` before the first event of the connection, or before the sniffer's
  /// first count.
  private(set) var event: Int?
  /// Number of events without a received packet.
  private(set) var missedEvents = 0
  /// Whether the last packet started an event.
  private(set) var isFirst = false
  /// Whether the sniffer counts events.
  private(set) var isCounted = false
  /// Start of the last event.
  private var anchor: ReceiveTime?
  private var lastChannel: UInt8?
  /// Current connection interval in nanoseconds.
  private var interval: Int64
  /// An agreed interval that is not in effect yet, in nanoseconds.
  private var pending: (interval: Int64, instant: UInt16)?

  /// Creates a clock.
  ///
  /// - Parameters:
  ///   - interval: connection interval in units of 1.25 ms; 0 if unknown.
  ///   - windowStart: earliest time of the first event.
  init(interval: UInt16, windowStart: ReceiveTime?) {
    self.interval = Self.nanoseconds(interval)
    anchor = windowStart
  }

  /// About ten years: longer than any link, and small enough that sums do not overflow.
  private static let longest: Int64 = 1 << 58

  private static func nanoseconds(_ interval: UInt16) -> Int64 { Int64(interval) * 1_250_000 }

  /// Changes the interval at the given event.
  mutating func change(interval: UInt16, at instant: UInt16) {
    let interval = Self.nanoseconds(interval)
    if event == nil { self.interval = interval } else { pending = (interval, instant) }
  }

  /// Returns whether the given event has passed.
  func isPast(_ instant: UInt16) -> Bool {
    guard let event else { return true }
    return Int16(bitPattern: UInt16(truncatingIfNeeded: event) &- instant) >= 0
  }

  /// Updates the event for the time of the next packet.
  ///
  /// - Parameter counter: the sniffer's event counter.
  mutating func take(_ time: ReceiveTime, channel: UInt8?, counter: UInt16?) {
    let passed: Int
    if let counter {
      isCounted = true
      let known = event ?? Int(counter)
      passed = event == nil ? 1 : Int(Int16(bitPattern: counter &- UInt16(truncatingIfNeeded: known)))
      event = event == nil ? known : known + max(0, passed)
    } else {
      passed = eventsPassed(at: time, channel: channel)
      event = event.map { $0 + passed }
    }
    isFirst = passed > 0 || anchor == nil
    if passed > 1 { missedEvents += passed - 1 }
    if isFirst { anchor = time }
    lastChannel = channel
    if let change = pending, isPast(change.instant) {
      interval = change.interval
      pending = nil
    }
  }

  private mutating func eventsPassed(at time: ReceiveTime, channel: UInt8?) -> Int {
    guard interval > 0, let anchor else { return channel != nil && channel != lastChannel ? 1 : 0 }
    let elapsed = min((time - anchor).nanoseconds, Self.longest)
    guard elapsed > 0 else { return 0 }
    guard event != nil || lastChannel != nil else {
      // For the first packet, the anchor is the earliest time of event 0.
      event = -1
      return Int(clamping: elapsed / interval) + 1
    }
    if let pending, let event {
      let until = Int64(Int16(bitPattern: pending.instant &- UInt16(truncatingIfNeeded: event)))
      // The first event of the new interval may be delayed by up to one new interval.
      if until > 0, pending.interval > 0, elapsed > until * interval - interval / 2 {
        return Int(clamping: until + max(0, elapsed - until * interval) / pending.interval)
      }
    }
    let passed = (elapsed + interval / 2) / interval
    // An event may last almost until the next event, but stays on its channel.
    if passed == 1, elapsed < interval * 9 / 10, channel != nil, channel == lastChannel { return 0 }
    return Int(clamping: passed)
  }
}
