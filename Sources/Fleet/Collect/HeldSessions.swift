import BLECore

/// The sessions that a collector has in memory, by publisher. Each takes one place, and one more for each of its tables.
///
/// No publisher takes the places of others: nobody has more than a share, and where all are taken, the publisher with
/// the most gives way to one that has less. What gives way is *set aside*: its files stay, and with its next message it
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
  private(set) var places = 0
  private(set) var completeCount = 0
  /// Sessions that gave way, as often as they did.
  private(set) var setAside = 0
  /// Rows that were missing of them then.
  private(set) var setAsideMissing = 0
  /// The last search that found no room: whoever has so many places finds none before that time.
  private var noRoom: (until: MonotonicTime, places: Int)?
  private let placeLimit: Int
  private let shareLimit: Int

  init(_ limit: Limit = limit, share: Limit = share) {
    (placeLimit, shareLimit) = (limit.count, share.count)
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
      var held = publishers[name.publisher] ?? Held()
      let old = held.sessions[name.session]
      let difference = (newValue?.places ?? 0) - (old?.places ?? 0)
      held.sessions[name.session] = newValue
      held.places += difference
      places += difference
      completeCount += (newValue?.isComplete == true ? 1 : 0) - (old?.isComplete == true ? 1 : 0)
      publishers[name.publisher] = held.sessions.isEmpty ? nil : held
    }
  }

  /// Sees that a session may take so many places more.
  ///
  /// - Throws: `refused` where it may not.
  mutating func makeRoom(
    _ needed: Int, for name: Collector.SessionName, _ now: MonotonicTime
  ) throws(CollectProblem) {
    guard needed > 0 else { return }
    while (publishers[name.publisher]?.places ?? 0) + needed > shareLimit {
      guard let own = silent(for: name, now) else {
        throw .refused(
          Batch.Refusal("its publisher has \(shareLimit) sessions and tables, as many as one may", .share))
      }
      remove(own)
    }
    while places + needed > placeLimit {
      guard let other = yielding(to: name, needed, now) else {
        throw .refused(
          Batch.Refusal("there are \(placeLimit) sessions and tables already; start another collector", .full)
        )
      }
      remove(other)
    }
  }

  private mutating func remove(_ name: Collector.SessionName) {
    setAside += 1
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
      most.value.places - (most.value.sessions[oldest.name]?.places ?? 0) >= own + needed
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
