package import BLEWire
package import ColmiRing
import JSONText

/// Converts the recorded packets between a ring and its host to rows of the ring's history and to messages.
///
/// Days are days on the ring's clock. The clock is known from the host's setting in the log, and before this
/// setting from `calendar`. The day of a log is taken from the host's request, from the echo in the ring's
/// answer, or from dates in the answer. Other frames may arrive between the parts of a log or message. If
/// parts are missing, the received rows are kept and the log is marked as incomplete.
package struct RingStory {
  package private(set) var counts = Counts()
  /// Offset of the ring's clock from the clock of the log, in seconds; `nil` until the host sets the ring's
  /// clock.
  package var clockOffset: Int64? { clock.offset }

  private var clock: RingStoryClock
  var tables = RingStoryTables()
  private var logs: [RingLogKind: RingOpenLog] = [:]
  private var requests: [RingLogKind: Request] = [:]
  private var temperatures: RingIntervalTemperatureAssembler?
  private var received = RingBigDataReassembler()
  private var sent = RingBigDataReassembler()
  /// Time of the latest message part in each direction.
  private var latestPiece: [RingTranscript.Direction: ReceiveTime] = [:]
  private var line = JSONLine()
  private let message: (Span<UInt8>) -> Void

  private enum Request {
    case of(RingDayLog.Day)
    /// Several days were requested before the first answer.
    case several
  }

  /// Starts a conversion.
  ///
  /// - Parameters:
  ///   - calendar: time zone of the ring's clock. If `nil`, it is the difference between the time set by the
  ///     host and the time of the log, rounded to a quarter of an hour.
  ///   - fallback: time zone before the host sets the clock, if `calendar` is `nil`.
  ///   - message: called with a JSON line, including its line feed, for each frame, log and message except
  ///     those of the raw stream. The line contains the time, the direction and the output of
  ///     `ringtap ring decode`.
  package init(
    calendar: RingCalendar?, fallback: RingCalendar = .utc,
    message: @escaping (Span<UInt8>) -> Void = { _ in }
  ) {
    clock = RingStoryClock(calendar: calendar ?? fallback, isGiven: calendar != nil)
    self.message = message
  }

  /// Processes a value of the ring's command or big data channel. Values must be passed in the order of the
  /// log.
  package mutating func take(
    _ value: Span<UInt8>, channel: RingTranscript.Channel, direction: RingTranscript.Direction,
    at time: ReceiveTime
  ) {
    counts.values += 1
    switch (channel, direction) {
    case (.uart, .ringToHost): takeReply(value, time)
    case (.uart, .hostToRing): takeRequest(value, time)
    case (.bigData, _): takePiece(value, direction, time)
    }
  }

  /// Closes incomplete logs and messages. Call it at the end of each link and at the end of the log.
  package mutating func finish() {
    for kind in RingLogKind.allCases { close(kind) }
    requests.removeAll()
    endTemperatures(at: nil)
    abandon(.ringToHost)
    abandon(.hostToRing)
  }

  // MARK: Command channel

  private mutating func takeRequest(_ value: Span<UInt8>, _ time: ReceiveTime) {
    guard let frame = try? RingFrame(validating: value), let sent = try? RingSentFrame(decoding: frame) else {
      return tell(value, .hostToRing, time)
    }
    switch sent {
    case .request(.setTime(let shown, _)): clock.set(to: shown, at: time)
    case .request(.heartRateLog(let timestamp)): expect(.heartRate, .timestamp(timestamp))
    case .request(.stressLog(let day)): expect(.stress, .daysAgo(day))
    case .request(.heartRateVariabilityLog(let day)): expect(.heartRateVariability, .daysAgo(day))
    case .request(.unnamedLog(let day)): expect(.unnamed, .daysAgo(day))
    default: break
    }
    tell(value, .hostToRing, time)
  }

  private mutating func expect(_ kind: RingLogKind, _ day: RingDayLog.Day) {
    switch requests[kind] {
    case nil: requests[kind] = .of(day)
    case .of(day): break
    case .of, .several: requests[kind] = .several
    }
  }

  private mutating func takeReply(_ value: Span<UInt8>, _ time: ReceiveTime) {
    guard let frame = try? RingFrame(validating: value), let reply = try? RingReply(decoding: frame) else {
      return tell(value, .ringToHost, time)
    }
    switch reply {
    case .raw:
      counts.rawFrames += 1
      return
    case .log(let kind): return takeLog(kind, frame, time)
    case .noData(let kind): forget(kind)
    case .refused(let opcode, _):
      if let kind = RingLogKind(rawValue: opcode) { forget(kind) }
    default: counts.droppedRows += tables.take(reply, at: time)
    }
    tell(value, .ringToHost, time)
  }

  private mutating func forget(_ kind: RingLogKind) {
    close(kind)
    requests[kind] = nil
  }

  private mutating func takeLog(_ kind: RingLogKind, _ frame: borrowing RingFrame, _ time: ReceiveTime) {
    var step = logs[kind]?.receive(frame, at: time) ?? .ofAnother
    if case .ofAnother = step {
      close(kind)
      var log = RingOpenLog(kind, asked: asked(kind), at: time)
      step = log.receive(frame, at: time)
      logs[kind] = log
    }
    switch step {
    case .taken: counts.logFrames[kind, default: 0] += 1
    case .ended(let log):
      counts.logFrames[kind, default: 0] += 1
      end(kind, log)
    case .rejected, .ofAnother:
      counts.invalid["log", default: 0] += 1
      if logs[kind]?.frameCount == 0 { logs[kind] = nil }
    }
  }

  /// Returns the requested day for a log that begins; `nil` if unknown.
  private mutating func asked(_ kind: RingLogKind) -> RingDayLog.Day? {
    guard case .of(let day) = requests.removeValue(forKey: kind) else { return nil }
    return day
  }

  private mutating func close(_ kind: RingLogKind) {
    guard var open = logs[kind] else { return }
    if let log = open.finish() { return end(kind, log) }
    logs[kind] = nil
    counts.incompleteLogs += 1
    var fields = FieldList()
    fields.members(of: RingReply.log(kind))
    fields.member("frames", open.frameCount)
    fields.member("complete", false)
    emit(fields, .ringToHost, open.latest)
  }

  private mutating func end(_ kind: RingLogKind, _ log: RingOpenLog.Log) {
    guard let open = logs.removeValue(forKey: kind) else { return }
    let answer: RingAnswer
    switch log {
    case .day(let day):
      answer = .dayLog(day)
      if !day.isComplete { counts.incompleteLogs += 1 }
      keep(day, open)
    case .activity(let activity):
      answer = .activityLog(activity)
      if !activity.isComplete { counts.incompleteLogs += 1 }
      if let rows = rows(at: open.start) { keep(.steps, rows.of(activity)) }
    }
    let fields = FieldList(of: answer)
    counts.logs[fields.kind, default: 0] += 1
    emit(fields, .ringToHost, open.latest)
  }

  private mutating func keep(_ log: RingDayLog, _ open: RingOpenLog) {
    guard let table = log.kind.table else { return }
    guard let rows = rows(at: open.start),
      let date = (log.day ?? open.asked)?.date(from: rows.now.date)
    else {
      counts.undatedLogs += 1
      return
    }
    keep(table, rows.of(log, on: date))
  }

  // MARK: Big data

  private mutating func takePiece(
    _ value: Span<UInt8>, _ direction: RingTranscript.Direction, _ time: ReceiveTime
  ) {
    if let latest = latestPiece[direction], !time.isNear(latest, within: RingOpenLog.silence) {
      abandon(direction)
    }
    latestPiece[direction] = time
    var events: [RingBigDataReassembler.Event] = []
    if direction == .ringToHost {
      received.receive(value) { events.append($0) }
    } else {
      sent.receive(value) { events.append($0) }
    }
    // If one value completes several messages, it is counted with the first message.
    if events.isEmpty { counts.pieces += 1 }
    for (index, event) in events.enumerated() { take(event, direction, time, isFirst: index == 0) }
  }

  private mutating func abandon(_ direction: RingTranscript.Direction) {
    guard let time = latestPiece[direction] else { return }
    var events: [RingBigDataReassembler.Event] = []
    if direction == .ringToHost {
      received.abandon { events.append($0) }
    } else {
      sent.abandon { events.append($0) }
    }
    // The values of the message have already been counted as pieces.
    for event in events { take(event, direction, time, isFirst: false) }
  }

  private mutating func take(
    _ event: RingBigDataReassembler.Event, _ direction: RingTranscript.Direction, _ time: ReceiveTime,
    isFirst: Bool
  ) {
    if case .raw = event {
      if isFirst { counts.rawFrames += 1 }
      return
    }
    let fields = RingTranscript.fields(of: event, direction)
    if isFirst { count(fields, event, direction) }
    if case .message(let message) = event, direction == .ringToHost,
      let reply = try? RingBigDataReply(decoding: message)
    {
      keep(reply, time)
    }
    emit(fields, direction, time)
  }

  private mutating func keep(_ reply: RingBigDataReply, _ time: ReceiveTime) {
    guard let rows = rows(at: time) else { return }
    switch reply {
    case .sleepLog(let nights): for night in nights { keep(.sleep, rows.of(night: night)) }
    case .nap(let naps): for nap in naps { keep(.sleep, rows.of(nap: nap)) }
    case .spO2(let days): for day in days { keep(.spo2, rows.of(day)) }
    // Half-hourly temperatures do not replace temperatures at the ring's own shorter interval.
    case .temperature(let days): for day in days { keep(.temperature, rows.of(day), .keep) }
    case .manualHeartRate(let log): keep(.heartRate, rows.of(log))
    case .intervalTemperature(let packet): keep(packet, time)
    case .status, .firmware, .unknown: break
    }
  }

  private mutating func keep(_ packet: RingIntervalTemperaturePacket, _ time: ReceiveTime) {
    if temperatures?.daysAgo != packet.daysAgo || packet.index == 0 {
      endTemperatures(at: time)
      temperatures = RingIntervalTemperatureAssembler(daysAgo: packet.daysAgo)
    }
    guard case .complete(let log)? = temperatures?.receive(packet) else { return }
    temperatures = nil
    keep(log, time)
  }

  /// Ends the log of temperatures.
  ///
  /// - Parameter time: time of the event that ends the log; `nil` for the time of the latest part.
  private mutating func endTemperatures(at time: ReceiveTime?) {
    let log = temperatures?.finish()
    temperatures = nil
    if let log, let time = time ?? latestPiece[.ringToHost] { keep(log, time) }
  }

  private mutating func keep(_ log: RingIntervalTemperatureLog, _ time: ReceiveTime) {
    if !log.isComplete { counts.incompleteLogs += 1 }
    if let rows = rows(at: time) { keep(.temperature, rows.of(log)) }
    let fields = FieldList(of: RingAnswer.intervalTemperature(log))
    counts.logs[fields.kind, default: 0] += 1
    emit(fields, .ringToHost, time)
  }

  // MARK: Rows, counts, lines

  private func rows(at time: ReceiveTime) -> RingRows? {
    clock.shown(at: time).map { RingRows(calendar: clock.calendar, now: $0) }
  }

  private mutating func keep(
    _ kind: RingHistoryKind, _ rows: [RingTable.Row], _ conflict: RingTable.Conflict = .replace
  ) {
    counts.droppedRows += tables.keep(kind, rows, conflict)
  }

  /// Reports a single frame of the command channel.
  private mutating func tell(
    _ value: Span<UInt8>, _ direction: RingTranscript.Direction, _ time: ReceiveTime
  ) {
    let transcript = RingTranscript(
      channel: .uart, direction: direction, packets: [value.indices.map { value[$0] }])
    guard let fields = try? transcript.objects().first else {
      preconditionFailure("one packet is one object")
    }
    switch fields.kind {
    case "invalid": counts.invalid[fields.reason, default: 0] += 1
    case "unknown":
      counts.unknown[Counts.Unknown(channel: .uart, direction: direction, code: value[0]), default: 0] += 1
    case let kind: counts.frames[kind, default: 0] += 1
    }
    emit(fields, direction, time)
  }

  private mutating func count(
    _ fields: FieldList, _ event: RingBigDataReassembler.Event, _ direction: RingTranscript.Direction
  ) {
    switch event {
    case .failed(.checksum): counts.invalid["checksum", default: 0] += 1
    case .message(let message) where !RingBigDataID.isKnown(message.id):
      let unknown = Counts.Unknown(channel: .bigData, direction: direction, code: message.id)
      counts.unknown[unknown, default: 0] += 1
    case .message, .failed, .raw:
      if fields.kind == "invalid" {
        counts.invalid[fields.reason, default: 0] += 1
      } else {
        counts.messages[fields.kind, default: 0] += 1
      }
    }
  }

  private mutating func emit(
    _ fields: FieldList, _ direction: RingTranscript.Direction, _ time: ReceiveTime
  ) {
    line.removeAll()
    line.object { line in
      line.member("timeNs", time)
      line.member("direction", direction.rawValue)
      line.members(fields.fields)
    }
    line.endLine()
    let octets = line.octets
    message(octets.span)
  }
}

extension FieldList {
  /// Value of the `kind` member, which is a stable interface.
  fileprivate var kind: String { text("kind") }
  /// Reason why the value is invalid.
  fileprivate var reason: String { text("reason") }

  private func text(_ name: String) -> String {
    guard case .text(let text)? = fields.first(where: { $0.name == name })?.value else { return "" }
    return text
  }
}

extension RingDayLog.Day {
  /// Returns the date of the log; `nil` if it is invalid.
  ///
  /// - Parameter today: today's date on the ring's clock.
  fileprivate func date(from today: RingDate) -> RingDate? {
    switch self {
    case .timestamp(let timestamp):
      (try? RingDateTime(secondsSince1970: Int64(timestamp), convention: .utc))?.date
    case .daysAgo(let days): today.before(days: Int(days))
    }
  }
}

extension RingLogKind {
  /// Table for the log; `nil` for a log of unknown meaning.
  fileprivate var table: RingHistoryKind? {
    switch self {
    case .heartRate: .heartRate
    case .stress: .stress
    case .heartRateVariability: .hrv
    case .activity: .steps
    case .unnamed: nil
    }
  }
}

extension RingStory {
  /// Counts of values by type.
  package struct Counts: Hashable, Sendable {
    /// Unknown command byte or data ID.
    package struct Unknown: Hashable, Sendable {
      package let channel: RingTranscript.Channel
      package let direction: RingTranscript.Direction
      package let code: UInt8
    }

    /// Number of received values. Each value is also counted in one of `frames`, `messages`, `logFrames`,
    /// `pieces`, `unknown`, `invalid` and `rawFrames`.
    package var values = 0
    /// Number of single frames of the command channel, by their `kind` in JSON.
    package var frames: [String: Int] = [:]
    /// Number of messages of the big data channel, by their `kind` in JSON.
    package var messages: [String: Int] = [:]
    /// Number of values that contain only part of a message.
    package var pieces = 0
    package var logFrames: [RingLogKind: Int] = [:]
    package var rawFrames = 0
    package var unknown: [Unknown: Int] = [:]
    /// Number of invalid values by reason: `checksum`, `length`, `value`, `opcode`, or `log` for a frame that
    /// contradicts its log.
    package var invalid: [String: Int] = [:]

    /// Number of assembled logs, by their `kind` in JSON.
    package var logs: [String: Int] = [:]
    /// Number of incomplete logs among the assembled logs.
    package var incompleteLogs = 0
    /// Number of logs whose day is unknown. Their rows are not in the tables.
    package var undatedLogs = 0
    /// Number of rows dropped because the tables were full.
    package var droppedRows = 0
  }
}

/// The ring's clock during a recording.
private struct RingStoryClock: Sendable {
  /// Time zone of the ring's clock.
  private(set) var calendar: RingCalendar
  /// Offset of the ring's clock from the clock of the log, in seconds; `nil` until the host sets the ring's
  /// clock.
  private(set) var offset: Int64?
  private let isGiven: Bool

  /// Maximum offset of a time zone from UTC, in seconds.
  private static let farthestZoneSeconds: Int64 = 14 * 3600
  /// Step of time zone offsets, in seconds. All offsets are multiples of it.
  private static let zoneStepSeconds: Int64 = 15 * 60

  /// Creates the clock at the start of a recording.
  ///
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
    // A larger offset means that the clock of the host or of the log was not set.
    guard zone.magnitude <= Self.farthestZoneSeconds else { return }
    calendar = RingCalendar { _ in Int32(zone) }
  }

  /// Returns the time that the ring's clock shows at an instant; `nil` outside its range of years.
  func shown(at time: ReceiveTime) -> RingDateTime? {
    guard let offset else { return try? calendar.clock(at: time) }
    return try? RingDateTime(secondsSince1970: time.seconds + offset, convention: .utc)
  }
}

extension ReceiveTime {
  fileprivate var seconds: Int64 { nanoseconds / 1_000_000_000 }
}
