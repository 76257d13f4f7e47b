import BLECore
import BLEHost
import BLELinux
public import ColmiRing

/// Fetches a ring's history into tables, one for each kind. Run again, it adds what is new.
public struct RingSync: Sendable {
  /// What became of one table.
  public struct Outcome: Hashable, Sendable {
    public let kind: RingHistoryKind
    /// Rows of the file afterwards.
    public var rows = 0
    public var added = 0
    /// Rows that were there with other values, as those of today are.
    public var changed = 0
    /// Why it has less than was asked for; `nil` where all came.
    public var note: String?
    /// Whether something did not come that the ring may have.
    public var isIncomplete = false
  }

  /// A ring keeps about a week.
  public static let defaultDays = 7
  /// Octet `days ago` would go on to 254; no ring keeps that much.
  public static let maximumDays = 31

  private let conversation: RingConversation
  private let calendar: RingCalendar
  /// What the ring's clock should show.
  private let now: RingDateTime
  private let days: Int
  private let directory: String

  /// - Parameters:
  ///   - conversation: with the ring.
  ///   - calendar: the time zone of days.
  ///   - now: what the ring's clock should show; decides which day is today.
  ///   - since: the first day; `nil` for as much as a ring keeps.
  ///   - directory: where the tables are.
  public init(
    _ conversation: RingConversation, calendar: RingCalendar, now: RingDateTime, since: RingDate?,
    directory: String
  ) {
    self.conversation = conversation
    self.calendar = calendar
    self.now = now
    days = min(Self.maximumDays, max(1, since.map { $0.days(before: now.date) + 1 } ?? Self.defaultDays))
    self.directory = directory
  }

  /// Fetches all kinds, one after the other; one that the ring lacks does not disturb the others.
  ///
  /// - Throws: where the link, the disk or the task ends it.
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
        outcome.note = "\(directory)/\(kind.fileName) is no table of this kind: left alone"
        return outcome
      }
      let merge = try table.merge(rows)
      (outcome.rows, outcome.added, outcome.changed) = (merge.rows, merge.added, merge.changed)
    } catch { throw .host(.system(error)) }
    return outcome
  }

  private typealias Rows = [RingTable.Row]

  /// Rows as far as they came; the outcome says what is missing.
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
          notes.append("the log of \(daysAgo) days ago is not complete")
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

  /// - Returns: the day's rows, and whether they are all.
  private func day(_ kind: RingHistoryKind, _ daysAgo: UInt8) async throws(RingError) -> (Rows, Bool) {
    let date = now.date.before(days: Int(daysAgo))
    switch kind {
    case .steps:
      guard let log = try await conversation.activityLog(daysAgo: daysAgo) else { return ([], true) }
      return (rows(log), log.isComplete)
    case .stress:
      return rows(try await conversation.stressLog(daysAgo: daysAgo), date) { [String($0)] }
    case .hrv:
      return rows(try await conversation.heartRateVariabilityLog(daysAgo: daysAgo), date) { [String($0)] }
    default:
      return rows(try await conversation.heartRateLog(of: date), date) { ["log", String($0)] }
    }
  }

  private func rows(
    _ log: RingDayLog?, _ date: RingDate, _ columns: (UInt8) -> [String]
  ) -> (Rows, Bool) {
    guard let log else { return ([], true) }
    // Slots of today that are yet to come may be stale.
    let last = date == now.date ? Int(now.hour) * 60 + Int(now.minute) : 1440
    let entries = log.entries.filter { $0.slot * log.intervalMinutes <= last }
    let rows = entries.map { entry in
      RingTable.Row(calendar.time(date, minute: entry.slot * log.intervalMinutes), columns(entry.value))
    }
    return (rows, log.isComplete)
  }

  private func rows(_ log: RingActivityLog) -> Rows {
    log.records.compactMap { record in
      guard case .valid(let date) = record.date, let minute = record.startMinute else { return nil }
      let calories = log.calorieUnit == .tenCalories ? String(Int(record.calories) * 10) : ""
      return RingTable.Row(
        calendar.time(date, minute: minute), String(record.steps), String(record.distanceMeters), calories)
    }
  }

  // MARK: Big data

  private func isWanted(_ daysAgo: UInt8) -> Bool { Int(daysAgo) < days }

  private func manualHeartRates() async throws(RingError) -> Rows {
    var rows: Rows = []
    for daysAgo in 0..<days {
      let answer = try await conversation.manualHeartRates(daysAgo: UInt8(daysAgo))
      guard case .manualHeartRate(let log) = answer.reply else { continue }
      let date = now.date.before(days: Int(log.daysAgo))
      rows += log.entries.map {
        RingTable.Row(calendar.time(date, minute: Int($0.minute)), "manual", String($0.beatsPerMinute))
      }
    }
    return rows
  }

  private func oxygen() async throws(RingError) -> Rows {
    guard case .spO2(let days) = try await conversation.oxygen().reply else { return [] }
    return days.filter { isWanted($0.daysAgo) }.flatMap { day in
      let date = now.date.before(days: Int(day.daysAgo))
      return day.hours.map { hour in
        RingTable.Row(
          calendar.time(date, minute: Int(hour.hour) * 60), String(hour.minimum), String(hour.maximum))
      }
    }
  }

  private func sleep() async throws(RingError) -> Rows {
    let answers = try await conversation.nights()
    // Naps come before the nights, and unasked.
    return (answers + (await conversation.naps)).flatMap { answer -> Rows in
      switch answer.reply {
      case .sleepLog(let nights): nights.filter { isWanted($0.daysAgo) }.flatMap { rows($0, "night") }
      case .nap(let naps): naps.filter { isWanted($0.daysAgo) }.flatMap { rows($0, "nap") }
      default: []
      }
    }
  }

  private func rows(_ sleep: RingSleep, _ kind: String) -> Rows {
    let date = now.date.before(days: Int(sleep.daysAgo))
    var minute = sleep.startMinuteOfEndDay
    return sleep.stages.map { span in
      defer { minute += Int(span.minutes) }
      return RingTable.Row(calendar.time(date, minute: minute), kind, String(span.minutes), span.stage.text)
    }
  }

  /// By the half hour, and by the ring's own interval where it has that. A ring has one of both, or none.
  private func temperature(
    _ outcome: inout Outcome, _ notes: inout [String]
  ) async throws(RingError) -> Rows {
    let halfHours: Result<Rows, RingError>
    do throws(RingError) { halfHours = .success(try await halfHourTemperature()) } catch {
      halfHours = .failure(error)
    }
    do throws(RingError) {
      var rows: Rows = []
      for daysAgo in 0..<days {
        guard let log = try await conversation.intervalTemperature(daysAgo: UInt8(daysAgo)) else { continue }
        let date = now.date.before(days: daysAgo)
        rows += log.readings.map {
          RingTable.Row(calendar.time(date, minute: $0.minute), String($0.celsius))
        }
        guard !log.isComplete else { continue }
        notes.append("the temperatures of \(daysAgo) days ago are not complete")
        outcome.isIncomplete = true
      }
      let times = Set(rows.map(\.time))
      return rows + ((try? halfHours.get()) ?? []).filter { !times.contains($0.time) }
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
    return days.filter { isWanted($0.daysAgo) }.flatMap { day in
      let date = now.date.before(days: Int(day.daysAgo))
      return day.readings.map {
        RingTable.Row(calendar.time(date, minute: $0.minute), String($0.celsius))
      }
    }
  }
}

extension RingSleep.Stage {
  /// As in the table of sleep.
  package var text: String {
    switch self {
    case .none: "none"
    case .error: "error"
    case .light: "light"
    case .deep: "deep"
    case .rapidEyeMovement: "rem"
    case .awake: "awake"
    default: String(rawValue)
    }
  }
}
