import BLEWire

/// Amount of memory used by sessions of a collector.
struct Room: Hashable, Sendable {
  /// Number of places: one for each session and one for each table.
  var places = 0
  /// Number of bytes, including the names of sessions and tables.
  var byteCount = 0

  static func + (a: Room, b: Room) -> Room {
    Room(places: a.places + b.places, byteCount: a.byteCount + b.byteCount)
  }

  static func - (a: Room, b: Room) -> Room {
    Room(places: a.places - b.places, byteCount: a.byteCount - b.byteCount)
  }
}

/// The sessions that a collector has in memory, by publisher. A session uses one place, and one more for each
/// table.
///
/// A publisher cannot exhaust the memory, because its share is limited. If all places or all bytes are used,
/// a publisher with few places displaces a session of the publisher with the most places. The displaced
/// session is *set aside*: it is removed from memory, its files remain, and its next message loads it again
/// if there is room.
struct HeldSessions {
  static let limit = Limit(
    32_768, "sessions of a collector, and their tables", by: .broker,
    whenFull:
      "one of the publisher with the most, or silent for a minute, is set aside, or the new one refused",
    counted: "`setAside` and `refusals` of `collect`")
  static let share = Limit(
    1_024, "sessions of one publisher, and their tables", by: .broker,
    whenFull: "one of its own that is silent for a minute is set aside, or the new one refused",
    counted: "`setAside` and `refusals` of `collect`")
  static let memory = Limit(
    33_554_432, "bytes of a collector's sessions and tables in memory", by: .broker,
    whenFull: "as with the number of sessions", counted: "`setAside` and `refusals` of `collect`")
  /// Time without messages after which a session may be set aside.
  static let silence = Duration.seconds(60)
  /// Time for which the result of a failed search for room remains valid.
  private static let searchPeriod = Duration.seconds(1)

  private struct Held {
    var sessions: [String: CollectedSession] = [:]
    var places = 0
    /// The earliest time at which a session of the publisher may become silent.
    var silentFrom = MonotonicTime(nanoseconds: 0)

    /// Returns the session that has been silent longest, except `name`.
    func oldest(except name: String?) -> (name: String, heardAt: MonotonicTime)? {
      sessions.lazy.filter { $0.key != name }.min { $0.value.heardAt < $1.value.heardAt }
        .map { ($0.key, $0.value.heardAt) }
    }
  }

  private var publishers: [String: Held] = [:]
  private(set) var room = Room()
  private(set) var completeCount = 0
  /// Number of times that a session was set aside.
  private(set) var setAside = 0
  /// Number of missing rows in sessions that were set aside.
  private(set) var setAsideMissing = 0
  /// The last failed search for room. Until the time `until`, a search for a publisher with at least `places`
  /// places would fail too.
  private var noRoom: (until: MonotonicTime, places: Int)?
  private let placeLimit: Int
  private let shareLimit: Int
  private let byteLimit: Int

  init(_ limit: Limit = limit, share: Limit = share, memory: Limit = memory) {
    (placeLimit, shareLimit, byteLimit) = (limit.count, share.count, memory.count)
  }

  var publisherCount: Int { publishers.count }

  var all: [(name: Collector.SessionName, session: CollectedSession)] {
    publishers.flatMap { publisher, held in
      held.sessions.map { (Collector.SessionName(publisher: publisher, session: $0.key), $0.value) }
    }.sorted { $0.name < $1.name }
  }

  subscript(name: Collector.SessionName) -> CollectedSession? {
    get { publishers[name.publisher]?.sessions[name.session] }
    set {
      let old = publishers[name.publisher]?.sessions[name.session]
      let difference = (newValue?.room ?? Room()) - (old?.room ?? Room())
      room = room + difference
      completeCount += (newValue?.isComplete == true ? 1 : 0) - (old?.isComplete == true ? 1 : 0)
      publishers[name.publisher, default: Held()].sessions[name.session] = newValue
      publishers[name.publisher, default: Held()].places += difference.places
      if publishers[name.publisher]?.sessions.isEmpty == true { publishers[name.publisher] = nil }
    }
  }

  /// Makes room for a session that needs the additional memory `needed`.
  ///
  /// - Throws: `refused` if there is no room.
  mutating func makeRoom(
    _ needed: Room, for name: Collector.SessionName, _ now: MonotonicTime
  ) throws(CollectProblem) {
    guard needed.places > 0 else { return }
    while (publishers[name.publisher]?.places ?? 0) + needed.places > shareLimit {
      guard let own = silent(for: name, now) else {
        throw .refused(
          Batch.Refusal("its publisher has \(shareLimit) sessions and tables, the limit for one", .share))
      }
      remove(own)
    }
    while true {
      let room = room + needed
      let isFull = room.places > placeLimit
      guard isFull || room.byteCount > byteLimit else { return }
      guard let other = yielding(to: name, needed.places, now) else {
        let what =
          isFull
          ? "there are \(placeLimit) sessions and tables, the limit"
          : "sessions and tables take \(byteLimit >> 10) KiB of memory, the limit"
        throw .refused(Batch.Refusal("\(what); start another collector", .full))
      }
      remove(other)
    }
  }

  /// Rows of sessions that were set aside before their rows were written.
  private(set) var unwritten: [CollectorSync.Write] = []

  mutating func takeUnwritten() -> [CollectorSync.Write] {
    defer { unwritten = [] }
    return unwritten
  }

  private mutating func remove(_ name: Collector.SessionName) {
    setAside += 1
    unwritten += self[name]?.unwritten ?? []
    setAsideMissing += self[name]?.missingRows ?? 0
    self[name] = nil
  }

  /// Returns a session of the same publisher that may be set aside; `nil` if no session is silent.
  private mutating func silent(
    for name: Collector.SessionName, _ now: MonotonicTime
  ) -> Collector.SessionName? {
    guard let held = publishers[name.publisher], held.silentFrom <= now,
      let oldest = held.oldest(except: name.session)
    else { return nil }
    let silentFrom = oldest.heardAt.advanced(by: Self.silence)
    guard silentFrom <= now else {
      publishers[name.publisher]?.silentFrom = silentFrom
      return nil
    }
    return Collector.SessionName(publisher: name.publisher, session: oldest.name)
  }

  /// Returns a session to set aside: a session of the publisher with the most places, unless this publisher
  /// would then have fewer places than the requesting publisher. Otherwise returns the session that has been
  /// silent longest; `nil` if no session may be set aside.
  private mutating func yielding(
    to name: Collector.SessionName, _ needed: Int, _ now: MonotonicTime
  ) -> Collector.SessionName? {
    let own = publishers[name.publisher]?.places ?? 0
    if let noRoom, now < noRoom.until, own + needed >= noRoom.places { return nil }
    if let most = publishers.max(by: { $0.value.places < $1.value.places }), most.key != name.publisher,
      most.value.sessions.count > 1, let oldest = most.value.oldest(except: nil),
      most.value.places - (most.value.sessions[oldest.name]?.room.places ?? 0) >= own + needed
    {
      return Collector.SessionName(publisher: most.key, session: oldest.name)
    }
    var silent: (name: Collector.SessionName, heardAt: MonotonicTime)?
    for (publisher, held) in publishers {
      guard let oldest = held.oldest(except: publisher == name.publisher ? name.session : nil),
        oldest.heardAt < silent?.heardAt ?? now
      else { continue }
      silent = (Collector.SessionName(publisher: publisher, session: oldest.name), oldest.heardAt)
    }
    if let silent, silent.heardAt.advanced(by: Self.silence) <= now { return silent.name }
    noRoom = (now.advanced(by: Self.searchPeriod), own + needed)
    return nil
  }
}
