import BLEHost
import BLELinux
import BLEWire
public import ColmiRing

/// Reads a ring's history into tables, one per kind. Later runs add new rows.
public struct RingSync: Sendable {
  /// Result for one table.
  public struct Outcome: Hashable, Sendable {
    public let kind: RingHistoryKind
    /// Number of rows in the file after the sync.
    public var rows = 0
    public var added = 0
    /// Number of existing rows whose values changed, for example today's rows.
    public var changed = 0
    /// Reason why the table has fewer rows than requested; `nil` if the table is complete.
    public var note: String?
    /// Whether rows are missing that the ring may still store.
    public var isIncomplete = false
  }

  /// Default number of days. A ring stores about a week.
  public static let defaultDays = 7
  /// Maximum number of days. The byte for "days ago" permits 254 days, but no ring stores that many.
  public static let maximumDays = 31

  private let conversation: RingConversation
  private let rows: RingRows
  /// Time that the ring's clock should show.
  private var now: RingDateTime { rows.now }
  private let days: Int
  private let directory: String

  /// Prepares a sync.
  ///
  /// - Parameters:
  ///   - conversation: conversation with the ring.
  ///   - calendar: time zone of the days.
  ///   - now: time that the ring's clock should show; it determines today's date.
  ///   - since: the first day; `nil` for all days that a ring stores.
  ///   - directory: directory of the tables.
  public init(
    _ conversation: RingConversation, calendar: RingCalendar, now: RingDateTime, since: RingDate?,
    directory: String
  ) {
    self.conversation = conversation
    rows = RingRows(calendar: calendar, now: now)
    days = min(Self.maximumDays, max(1, since.map { $0.days(before: now.date) + 1 } ?? Self.defaultDays))
    self.directory = directory
  }

  /// Reads all kinds one after the other. Kinds that the ring does not support are skipped.
  ///
  /// - Throws: `host` if the link or the disk fails, `interrupted` if the task is cancelled.
  public func run(_ progress: @Sendable (RingHistoryKind) -> Void) async throws(RingError) -> [Outcome] {
    do throws(SystemError) { try Files.createDirectory(directory) } catch { throw .host(.system(error)) }
    var outcomes: [Outcome] = []
    for kind in RingHistoryKind.allCases {
      progress(kind)
      outcomes.append(try await run(kind))
    }
    return outcomes
  }

  private func run(_ kind: RingHistoryKind) async throws(RingError) -> Outcome {
    var outcome = Outcome(kind: kind)
    let rows = try await fetch(kind, &outcome)
    do throws(SystemError) {
      var table = try RingTable(kind, in: directory)
      guard !table.isForeign else {
        outcome.note = "\(directory)/\(kind.fileName) is not a table of this kind: left unchanged"
        return outcome
      }
      let merge = table.merge(rows)
      if merge.added > 0 || merge.changed > 0 || !Files.exists(directory + "/" + kind.fileName) {
        try table.write(in: directory)
      }
      (outcome.rows, outcome.added, outcome.changed) = (merge.rows, merge.added, merge.changed)
    } catch { throw .host(.system(error)) }
    return outcome
  }

  private typealias Rows = [RingTable.Row]

  /// Reads one kind and returns the received rows.
  ///
  /// - Parameters:
  ///   - kind: kind of data.
  ///   - outcome: receives a note about missing rows.
  private func fetch(_ kind: RingHistoryKind, _ outcome: inout Outcome) async throws(RingError) -> Rows {
    var rows: Rows = []
    var notes: [String] = []
    do throws(RingError) {
      switch kind {
      case .sleep: rows = try await sleep()
      case .spo2: rows = try await oxygen()
      case .temperature: rows = try await temperature(&outcome, &notes)
      case .heartRate, .steps, .stress, .hrv:
        for daysAgo in 0..<days {
          let (day, isComplete) = try await self.day(kind, UInt8(daysAgo))
          rows += day
          guard !isComplete else { continue }
          notes.append("the log of \(counted(daysAgo, "day")) ago is not complete")
          outcome.isIncomplete = true
        }
      }
      if kind == .heartRate { rows += try await manualHeartRates() }
    } catch {
      switch error {
      case .host, .interrupted: throw error
      case .refused, .lacking, .noBigData: break
      case .noReply, .senseless: outcome.isIncomplete = true
      }
      notes.append("\(error)")
    }
    if !notes.isEmpty { outcome.note = notes.joined(separator: "; ") }
    return rows
  }

  // MARK: Logs by day

  /// Reads one day of a kind.
  ///
  /// - Returns: the day's rows, and whether they are complete.
  private func day(_ kind: RingHistoryKind, _ daysAgo: UInt8) async throws(RingError) -> (Rows, Bool) {
    let date = now.date.before(days: Int(daysAgo))
    let log: RingDayLog?
    switch kind {
    case .steps:
      guard let log = try await conversation.activityLog(daysAgo: daysAgo) else { return ([], true) }
      return (rows.of(log), log.isComplete)
    case .stress: log = try await conversation.stressLog(daysAgo: daysAgo)
    case .hrv: log = try await conversation.heartRateVariabilityLog(daysAgo: daysAgo)
    default: log = try await conversation.heartRateLog(of: date)
    }
    return log.map { (rows.of($0, on: date), $0.isComplete) } ?? ([], true)
  }

  // MARK: Big data

  private func isWanted(_ daysAgo: UInt8) -> Bool { Int(daysAgo) < days }

  private func manualHeartRates() async throws(RingError) -> Rows {
    var all: Rows = []
    for daysAgo in 0..<days {
      let answer = try await conversation.manualHeartRates(daysAgo: UInt8(daysAgo))
      if case .manualHeartRate(let log) = answer.reply { all += rows.of(log) }
    }
    return all
  }

  private func oxygen() async throws(RingError) -> Rows {
    guard case .spO2(let days) = try await conversation.oxygen().reply else { return [] }
    return days.filter { isWanted($0.daysAgo) }.flatMap { rows.of($0) }
  }

  private func sleep() async throws(RingError) -> Rows {
    let answers = try await conversation.nights()
    // The ring sends its naps without a request, before the nights.
    return (answers + (await conversation.naps)).flatMap { answer -> Rows in
      switch answer.reply {
      case .sleepLog(let nights): nights.filter { isWanted($0.daysAgo) }.flatMap { rows.of(night: $0) }
      case .nap(let naps): naps.filter { isWanted($0.daysAgo) }.flatMap { rows.of(nap: $0) }
      default: []
      }
    }
  }

  /// Returns half-hourly temperatures and temperatures at the ring's own interval. A ring has at most one of
  /// the two kinds.
  private func temperature(
    _ outcome: inout Outcome, _ notes: inout [String]
  ) async throws(RingError) -> Rows {
    let halfHours: Result<Rows, RingError>
    do throws(RingError) { halfHours = .success(try await halfHourTemperature()) } catch {
      halfHours = .failure(error)
    }
    do throws(RingError) {
      var all: Rows = []
      for daysAgo in 0..<days {
        guard let log = try await conversation.intervalTemperature(daysAgo: UInt8(daysAgo)) else { continue }
        all += rows.of(log)
        guard !log.isComplete else { continue }
        notes.append("the temperatures of \(counted(daysAgo, "day")) ago are not complete")
        outcome.isIncomplete = true
      }
      let times = Set(all.map(\.time))
      return all + ((try? halfHours.get()) ?? []).filter { !times.contains($0.time) }
    } catch {
      switch error {
      case .host, .interrupted: throw error
      case .refused, .lacking, .noBigData, .noReply, .senseless: return try halfHours.get()
      }
    }
  }

  private func halfHourTemperature() async throws(RingError) -> Rows {
    let answer = try await conversation.temperature(days: UInt8(days))
    guard case .temperature(let days) = answer.reply else { return [] }
    return days.filter { isWanted($0.daysAgo) }.flatMap { rows.of($0) }
  }
}
