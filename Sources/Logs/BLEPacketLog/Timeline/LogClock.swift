public import BLEWire

/// A place in a log at which the writer's clock was set.
public struct LogClockStep: Hashable, Sendable {
  /// Number of the first record after the step.
  public let index: Int
  /// Timestamp of the previous record, as in the log.
  public let after: ReceiveTime
  /// Timestamp of the first record after the step, as in the log.
  public let seenAt: ReceiveTime
  /// Size of the step, negative if the clock was set back. The size is estimated from the regularity of the
  /// log, because the elapsed time is unknown.
  public let span: TimeSpan
  /// Whether the step is certain. An uncertain step may be a pause, and the timestamps stay as in the log.
  public let isCertain: Bool
}

/// Corrects timestamps of a log whose writer's clock was set during recording.
///
/// A clock that was set back is visible, because records are in the order in which they happened. A clock
/// that was set forward looks like a pause. The clock was set if a response after the pause would have taken
/// longer than allowed (30 s for a request, 32 s for data; Core 5.4, Vol 3, Part F, 3.3.3 and Vol 6, Part B,
/// 4.5.2), or if the clock later returns to its earlier setting. If regular notifications continue as
/// regularly as before, a step and a pause are both possible.
struct LogClock {
  static let limit = Limit(
    64, "steps of a log's clock that are listed", by: .file, whenFull: "further ones are counted",
    counted: "`clockStepCount` of `log stats`")
  private static let waiting = Limit(
    64, "records of a log that wait for evidence of a clock step", by: .file,
    whenFull: "their times are kept", counted: "as a pause")

  /// Maximum time by which records may be out of order.
  private static let disorder = TimeSpan(nanoseconds: -1_000_000_000)
  /// Maximum step back, one week. After a larger step, an older log follows in the same file.
  private static let anotherLog = TimeSpan(nanoseconds: -604_800_000_000_000)
  /// Maximum time for any response.
  private static let longest = TimeSpan(nanoseconds: 32_000_000_000)
  /// Time after a pause in which a response is awaited.
  private static let patience = TimeSpan(nanoseconds: 5_000_000_000)
  /// Maximum difference in nanoseconds after which a clock counts as back at its earlier setting.
  private static let precision: UInt64 = 2_000_000_000
  /// Maximum number of consecutive records that are out of order.
  private static let outOfOrder = 4

  private(set) var steps: [LogClockStep] = []
  private(set) var count = 0
  private(set) var disordered = 0
  /// Correction that is added to the timestamps of the log.
  private var offset = TimeSpan.zero
  /// Time of the last record, as in the log and as corrected.
  private var last: (raw: ReceiveTime, time: ReceiveTime)?
  /// The last step back: the number of its record, and the offset before the step.
  private var back: (index: Int, offset: TimeSpan, raw: ReceiveTime, drop: Int64)?
  private var pace = LogPace()
  private var open = OpenAnswers()
  /// Records after a jump of the times, held until a response shows the kind of the jump, a record continues
  /// the earlier times, or the wait ends.
  private var held: [StoredPacketRecord] = []
  private var pause: (raw: ReceiveTime, time: ReceiveTime)?

  init() {}

  mutating func take(_ record: borrowing PacketRecord, _ body: (borrowing PacketRecord) -> Void) {
    guard let pause else { return place(record, body) }
    if areOutliers(before: record, pause.raw) {
      giveOutliers(at: record.time + offset, body)
      return place(record, body)
    }
    held.append(StoredPacketRecord(copying: record))
    open.void(record)
    if open.isAnswer(record), held[0].header.time > pause.raw {
      release(isStep: true, after: pause, body)
    } else if record.time - held[0].header.time > Self.patience || record.time < held[0].header.time
      || held.count >= Self.waiting.count
    {
      release(isStep: false, after: pause, body)
    }
  }

  mutating func finish(_ body: (borrowing PacketRecord) -> Void) {
    if let pause { release(isStep: false, after: pause, body) }
  }

  /// Returns whether the held records have impossible times, because the next record continues the times
  /// before them.
  private func areOutliers(before record: borrowing PacketRecord, _ raw: ReceiveTime) -> Bool {
    guard let last = held.last, held.count <= Self.outOfOrder else { return false }
    let passed = record.time - raw
    return passed >= Self.disorder && passed <= Self.longest
      && (record.time - last.header.time).nanoseconds.magnitude > Self.longest.nanoseconds.magnitude
  }

  /// Passes the held records to `body` with the time of the next record, because a record may be late, but
  /// not early.
  private mutating func giveOutliers(at time: ReceiveTime, _ body: (borrowing PacketRecord) -> Void) {
    var records: [StoredPacketRecord] = []
    swap(&records, &held)
    pause = nil
    disordered += records.count
    for record in records {
      record.withRecord {
        open.take($0)
        body(PacketRecord($0, at: time, clockSteps: count))
      }
    }
  }

  private mutating func release(
    isStep: Bool, after pause: (raw: ReceiveTime, time: ReceiveTime), _ body: (borrowing PacketRecord) -> Void
  ) {
    var records: [StoredPacketRecord] = []
    swap(&records, &held)
    self.pause = nil
    if isStep {
      records[0].withRecord { set($0, from: pause.raw, pause.time) }
    } else {
      open = OpenAnswers()
      records[0].withRecord { doubt($0, after: pause.raw) }
    }
    for record in records { record.withRecord { give($0, body) } }
  }

  /// Decides how to treat the time between the previous record and this one.
  private mutating func place(_ record: borrowing PacketRecord, _ body: (borrowing PacketRecord) -> Void) {
    guard let last else { return give(record, body) }
    let passed = record.time - last.raw
    if passed < Self.anotherLog {
      back = nil
      pause = last
      return take(record, body)
    } else if passed < Self.disorder {
      back = (record.index, offset, last.raw, (last.raw - record.time).nanoseconds)
      set(record, from: last.raw, last.time)
    } else if let before = back, record.index - before.index <= Self.outOfOrder,
      record.time >= before.raw + Self.disorder, passed.nanoseconds > before.drop / 4 * 3
    {
      // The records were out of order.
      if count <= Self.limit.count { steps.removeLast() }
      count -= 1
      disordered += record.index - before.index
      offset = before.offset
      back = nil
    } else if passed > Self.longest {
      if offset != .zero, isReturn(record, passed) {
        set(record, from: last.raw, last.time)
      } else {
        pause = last
        return take(record, body)
      }
    }
    give(record, body)
  }

  /// Returns whether the clock is back at its setting before the step.
  private func isReturn(_ record: borrowing PacketRecord, _ passed: TimeSpan) -> Bool {
    let elapsed = pace.elapsed(before: record, since: last?.time)
    return (passed - elapsed - offset).nanoseconds.magnitude < Self.precision
  }

  /// Adds a step before this record; the corrected time continues.
  private mutating func set(
    _ record: borrowing PacketRecord, from raw: ReceiveTime, _ time: ReceiveTime
  ) {
    let elapsed = pace.elapsed(before: record, since: time)
    note(record, raw, span: record.time - raw - elapsed, true)
    offset = time + elapsed - record.time
  }

  /// Adds an uncertain step at a pause, if notifications continued regularly over the pause.
  private mutating func doubt(_ record: borrowing PacketRecord, after raw: ReceiveTime) {
    guard let last, let elapsed = pace.regular(record, since: last.time) else { return }
    note(record, raw, span: record.time - raw - elapsed, false)
  }

  private mutating func note(
    _ record: borrowing PacketRecord, _ raw: ReceiveTime, span: TimeSpan, _ isCertain: Bool
  ) {
    count += 1
    guard steps.count < Self.limit.count else { return }
    steps.append(
      LogClockStep(
        index: record.index, after: raw, seenAt: record.time, span: span, isCertain: isCertain))
  }

  private mutating func give(_ record: borrowing PacketRecord, _ body: (borrowing PacketRecord) -> Void) {
    let time = record.time + offset
    open.take(record)
    pace.take(record, at: time)
    last = (record.time, time)
    if count == 0 { body(record) } else { body(PacketRecord(record, at: time, clockSteps: count)) }
  }
}

/// Tracks the intervals between updates of attributes.
private struct LogPace {
  private static let maximumStreams = 32
  private static let maximumIntervals = 8
  /// Maximum interval in nanoseconds between updates in one connection event, such as the updates of a ring.
  /// Events are at least 7.5 ms apart (Core 5.4, Vol 6, Part B, 4.5.1).
  private static let sameEvent: Int64 = 5_000_000

  private struct Stream {
    var key: UInt64
    var last: ReceiveTime
    var intervals: [Int64] = []
    var next = 0
  }

  private var streams: [Stream] = []
  private var lastPlace = 0

  /// Identifies a notification or indication by adapter, handle, opcode and attribute.
  private func key(_ record: borrowing PacketRecord) -> UInt64? {
    let packet = record.packet
    guard record.type == .acl, packet.count >= 11, packet.u16(at: 0) >> 12 & 0x03 != 1,
      packet.u16(at: 6) == ATT.channelID,
      packet[8] == ATTOpcode.handleValueNotification.rawValue
        || packet[8] == ATTOpcode.handleValueIndication.rawValue
    else { return nil }
    return UInt64(record.adapter) << 48 | UInt64(packet.u16(at: 0) & 0x0FFF) << 32 | UInt64(packet[8]) << 16
      | UInt64(packet.u16(at: 9))
  }

  private func place(_ key: UInt64) -> Int? {
    lastPlace < streams.count && streams[lastPlace].key == key
      ? lastPlace : streams.firstIndex { $0.key == key }
  }

  mutating func take(_ record: borrowing PacketRecord, at time: ReceiveTime) {
    if record.type == .event, record.packet.count >= 3,
      ConnectionFields.start(code: record.packet[0], record.packet.extracting(2...)) != nil
    {
      return streams.removeAll()
    }
    guard let key = key(record) else { return }
    guard let place = place(key) else {
      if streams.count == Self.maximumStreams { streams.removeFirst() }
      streams.append(Stream(key: key, last: time))
      lastPlace = streams.count - 1
      return
    }
    lastPlace = place
    let interval = (time - streams[place].last).nanoseconds
    streams[place].last = time
    if (0..<Self.sameEvent).contains(interval) { return }
    if streams[place].intervals.count < Self.maximumIntervals {
      streams[place].intervals.append(interval)
    } else {
      streams[place].intervals[streams[place].next] = interval
      streams[place].next = (streams[place].next + 1) % Self.maximumIntervals
    }
  }

  private func median(_ stream: Stream) -> Int64? {
    stream.intervals.count < 2 ? nil : stream.intervals.sorted()[stream.intervals.count / 2]
  }

  /// Returns the expected time from `time` to `record` if the updates of its attribute continued at the same
  /// rate; 0 if unknown.
  func elapsed(before record: borrowing PacketRecord, since time: ReceiveTime?) -> TimeSpan {
    guard let time, let place = key(record).flatMap(place), let median = median(streams[place]) else {
      return .zero
    }
    return max(.zero, streams[place].last + TimeSpan(nanoseconds: median) - time)
  }

  /// Returns the expected time from `time` to `record` for an attribute with regular intervals; otherwise
  /// `nil`.
  func regular(_ record: borrowing PacketRecord, since time: ReceiveTime) -> TimeSpan? {
    guard let place = key(record).flatMap(place), streams[place].intervals.count == Self.maximumIntervals,
      let median = median(streams[place]), let longest = streams[place].intervals.max(), median > 0,
      longest / 2 <= median, (time - streams[place].last).nanoseconds / 2 <= median
    else { return nil }
    return elapsed(before: record, since: time)
  }
}

/// Tracks packets that await a response within a limited time.
private struct OpenAnswers {
  private static let maximumLinks = 64

  /// The last command that is neither complete nor in progress.
  private var command: (adapter: UInt16, opcode: UInt16)?
  /// Links with a pending request of the host.
  private var requests: Set<LinkKey> = []
  /// Links with packets that the controller has not sent yet.
  private var packets: [LinkKey: Int] = [:]
  private var tellsCompletion = false

  var isEmpty: Bool { command == nil && requests.isEmpty && !(tellsCompletion && !packets.isEmpty) }

  private func opcode(_ record: borrowing PacketRecord) -> ATTOpcode? {
    let packet = record.packet
    guard record.type == .acl, packet.count >= 9, packet.u16(at: 0) >> 12 & 0x03 != 1,
      packet.u16(at: 6) == ATT.channelID
    else { return nil }
    return ATTOpcode(rawValue: packet[8])
  }

  /// Returns whether a packet is a response to a packet before the pause.
  func isAnswer(_ record: borrowing PacketRecord) -> Bool {
    let packet = record.packet
    if record.direction == .controllerToHost, let opcode = opcode(record) {
      return opcode.kind == .response && requests.contains(LinkKey(record.adapter, packet.u16(at: 0)))
    }
    guard record.type == .event, packet.count >= 3 else { return false }
    switch HCIEventCode(rawValue: packet[0]) {
    case .commandComplete where packet.count >= 5:
      return command.map { $0 == (record.adapter, packet.u16(at: 3)) } ?? false
    case .commandStatus where packet.count >= 6:
      return command.map { $0 == (record.adapter, packet.u16(at: 4)) } ?? false
    case .numberOfCompletedPackets:
      let count = min(Int(packet[2]), (packet.count - 3) / 4)
      return (0..<count).contains { packets[LinkKey(record.adapter, packet.u16(at: 3 + 4 * $0))] ?? 0 > 0 }
    default: return false
    }
  }

  /// Stops waiting for a response if a packet after the pause requests it again, because the response could
  /// belong to the later packet.
  mutating func void(_ record: borrowing PacketRecord) {
    switch record.type {
    case .command: command = nil
    case .acl where record.direction == .hostToController && record.packet.count >= 2:
      let link = LinkKey(record.adapter, record.packet.u16(at: 0))
      packets[link] = nil
      if opcode(record)?.kind == .request { requests.remove(link) }
    default: break
    }
  }

  mutating func take(_ record: borrowing PacketRecord) {
    let packet = record.packet
    switch record.type {
    case .command where packet.count >= 3: command = (record.adapter, packet.u16(at: 0))
    case .acl where packet.count >= 2:
      let link = LinkKey(record.adapter, packet.u16(at: 0))
      if packets.count > Self.maximumLinks { packets.removeAll() }
      if requests.count > Self.maximumLinks { requests.removeAll() }
      let kind = opcode(record)?.kind
      if record.direction == .hostToController {
        packets[link, default: 0] += 1
        if kind == .request { requests.insert(link) }
      } else if kind == .response {
        requests.remove(link)
      }
    case .event where packet.count >= 3: take(event: packet, record.adapter)
    default: break
    }
  }

  private mutating func take(event: Span<UInt8>, _ adapter: UInt16) {
    switch HCIEventCode(rawValue: event[0]) {
    case .commandComplete, .commandStatus: command = nil
    case .numberOfCompletedPackets:
      tellsCompletion = true
      for index in 0..<min(Int(event[2]), (event.count - 3) / 4) {
        let link = LinkKey(adapter, event.u16(at: 3 + 4 * index))
        let rest = (packets[link] ?? 0) - Int(event.u16(at: 5 + 4 * index))
        packets[link] = rest > 0 ? rest : nil
      }
    case .disconnectionComplete where event.count >= 5:
      let link = LinkKey(adapter, event.u16(at: 3))
      packets[link] = nil
      requests.remove(link)
    default: break
    }
  }
}
