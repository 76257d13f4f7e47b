/// How often the events of a link bring a tick that is on time, and how far apart they are.
struct LinkEvents: Sendable {
  /// A pause between two ticks that parts events: nanoseconds, or half a period.
  private static let pause = 4_000_000.0
  /// Of how many events the share is.
  private static let memory = 64.0
  /// −ln of how seldom chance may look like a loss: one in a million.
  private static let doubt = 14.0

  private static let smallBacklog = 4.0
  /// A row of late events counts half as much after 700 events.
  private static let rowMemory = 1 - 1.0 / 1_024

  private var share = 0.5
  private var wasOnTime = false
  /// How late the last tick of the event was: periods.
  private var level = 0.0
  private var row = 0
  private var longestRow = 0.0
  private var last: Int64?
  /// The pause that nine of ten are longer than: nanoseconds. `nil` before any.
  private(set) var shortestPause: Double?

  func isPause(_ nanoseconds: Int64, _ period: Double) -> Bool {
    Double(nanoseconds) > min(Self.pause, period / 2)
  }

  /// So many events in a row without a tick that is on time prove that it is not chance: by their share where they come
  /// as chance has it, and four times the longest row of late ones, where a link at its limit is late for a while.
  var proof: Int {
    max(6, Int((Self.doubt * (1 / share - 0.5)).rounded(.up)), Int((4 * longestRow).rounded(.up)))
  }

  /// By how many periods more than the least an event may be late and still bring proof. Ticks that are lost one after
  /// the other make it so; a link that is seldom on time makes it so as well, when it has much to catch up with.
  var backlog: Double { share > 0.5 ? Self.smallBacklog : 1 }

  /// - Parameter late: since what is usual, in periods.
  mutating func take(_ time: Int64, late: Double, isOnTime: Bool, _ period: Double) {
    defer { last = time }
    guard let last, isPause(time &- last, period) else {
      level = late
      return wasOnTime = wasOnTime || isOnTime
    }
    share += ((wasOnTime ? 1 : 0) - share) / Self.memory
    share = max(0.01, share)
    row = wasOnTime || level > 1 + Self.smallBacklog ? 0 : row + 1
    longestRow = max(Double(row), longestRow * Self.rowMemory)
    (wasOnTime, level) = (isOnTime, late)
    let pause = Double(time &- last)
    // A tenth of the steps go down, by nine times as much.
    guard let shortest = shortestPause else { return shortestPause = pause }
    shortestPause = shortest + (pause < shortest ? 0.09 : 0.01) * (pause - shortest)
  }
}

/// The least lateness of the last seconds: what "on time" means where the line is still settling or a clock is being
/// slewed. In two blocks, so that old values are forgotten.
struct UsualLateness: Sendable {
  private static let blockTicks = 16
  private static let blockNanoseconds: Int64 = 2_000_000_000

  private var before: Double?
  private var current: Double?
  private var start: Int64 = 0
  private var ticks = 0

  var lowest: Double { min(current ?? before ?? 0, before ?? .infinity) }

  mutating func take(_ lateness: Double, at time: Int64) {
    if ticks >= Self.blockTicks, time &- start >= Self.blockNanoseconds {
      before = current
      current = nil
      ticks = 0
    }
    if ticks == 0 { start = time }
    ticks += 1
    current = min(current ?? .infinity, lateness)
  }

  /// The line has moved: what was so late is less late now.
  mutating func follow(_ shift: Double) {
    before = before.map { $0 - shift }
    current = current.map { $0 - shift }
  }
}
