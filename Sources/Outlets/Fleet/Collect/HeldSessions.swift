import BLEWire

/// What sessions take of a collector's memory.
struct Room: Hashable, Sendable {
  /// One for each session, and one for each of its tables.
  var places = 0
  /// With all names, as far as they are counted.
  var byteCount = 0

  static func + (a: Room, b: Room) -> Room {
    Room(places: a.places + b.places, byteCount: a.byteCount + b.byteCount)
  }

  static func - (a: Room, b: Room) -> Room {
    Room(places: a.places - b.places, byteCount: a.byteCount - b.byteCount)
  }
}

/// The sessions that a collector has in memory, by publisher. Each takes one place, and one more for each of its tables.
///
/// No publisher takes the places of others: nobody has more than a share, and where all are taken, or all of the memory, the
/// publisher with the most gives way to one that has less. What gives way is *set aside*: its files stay, and with its next message it
/// is taken up again from them, if there is room.
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
  /// A session of which nothing came for so long makes room for others.
  static let silence = Duration.seconds(60)
  /// For how long one search for room that found none stands for those that would find none either.
  private static let searchPeriod = Duration.seconds(1)

  private struct Held {
    var sessions: [String: CollectedSession] = [:]
    var places = 0
    /// Before that none of them is silent.
    var silentFrom = MonotonicTime(nanoseconds: 0)

    /// The one heard longest ago, but for one.
    func oldest(except name: String?) -> (name: String, heardAt: MonotonicTime)? {
      sessions.lazy.filter { $0.key != name }.min { $0.value.heardAt < $1.value.heardAt }
        .map { ($0.key, $0.value.heardAt) }
    }
  }

  private var publishers: [String: Held] = [:]
  private(set) var room = Room()
  private(set) var completeCount = 0
  /// Sessions that gave way, as often as they did.
  private(set) var setAside = 0
  /// Rows that were missing of them then.
  private(set) var setAsideMissing = 0
  /// The last search that found no room: whoever has so many places finds none before that time.
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

  /// Sees that a session may take so much room more.
  ///
  /// - Throws: `refused` where it may not.
  mutating func makeRoom(
    _ needed: Room, for name: Collector.SessionName, _ now: MonotonicTime
  ) throws(CollectProblem) {
    guard needed.places > 0 else { return }
    while (publishers[name.publisher]?.places ?? 0) + needed.places > shareLimit {
      guard let own = silent(for: name, now) else {
        throw .refused(
          Batch.Refusal("its publisher has \(shareLimit) sessions and tables, as many as one may", .share))
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
          ? "there are \(placeLimit) sessions and tables already"
          : "sessions and tables take \(byteLimit >> 10) KiB of memory already"
        throw .refused(Batch.Refusal("\(what); start another collector", .full))
      }
      remove(other)
    }
  }

  /// Rows of sessions that gave way before the files had them.
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

  /// One of the same publisher that has been silent.
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

  /// One of the publisher with the most, where that would still have no less; else the one that is silent longest.
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
