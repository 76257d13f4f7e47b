import BLEDissector
import BLELinux
import BLEPacketLog
import BLEWire
import Recording

/// Reads a packet log once, and summarises it by device.
struct PacketSurvey {
  enum Depth: Hashable, Sendable {
    /// Conversations and rates only.
    case conversation
    /// Conversations, rates, and samples.
    case samples
  }

  /// Peer device with all its connections.
  struct Device {
    var title: String
    var connections: [ConnectionReport]
    var conversation = ATTConversation()
    var streams = LogStreams()
  }

  private(set) var log = LogReport()
  private(set) var devices: [Device] = []
  /// Periods in which packets were lost while the log was written.
  private(set) var drops: [ReportSection.Mark] = []
  private(set) var problems: [ReportProblem] = []

  /// Maximum number of marked periods with lost packets. Later periods are only counted.
  private static let dropLimit = 1_000

  /// Reads a log.
  ///
  /// - Throws: an error if the file cannot be opened or is not a log. If the log ends early, `problems` has
  ///   the reason.
  static func read(
    _ path: String, keeping depth: Depth, keys: [AirKey] = [], progress: (String) -> Void
  ) throws(ReportError) -> PacketSurvey {
    var survey = PacketSurvey()
    var scan = PacketScan(depth)
    let (problem, timeline) = try LogFile.read(path, keys: keys, progress: progress) { scan.take($0) }
    if let problem { survey.problems.append(ReportProblem(.error, "\(problem).")) }
    survey.take(scan, timeline)
    return survey
  }

  private mutating func take(_ scan: consuming PacketScan, _ timeline: LogTimeline) {
    drops = Array(scan.drops.prefix(Self.dropLimit))
    var links = scan.links
    log = scan.finish()
    log.take(timeline)
    for connection in log.connections {
      let key = LogDevice(connection)
      if let place = devices.firstIndex(where: { LogDevice($0.connections[0]) == key }) {
        devices[place].connections.append(connection)
        continue
      }
      let title =
        connection.peer.map { $0.description } ?? "Unknown device, handle \(connection.handle.rawValue)"
      var device = Device(title: title, connections: [connection])
      if let link = links.removeValue(forKey: key) {
        device.conversation = link.conversation
        device.streams = link.streams
        device.streams.finish()
      }
      devices.append(device)
    }
    if log.drops > 0 {
      problems.append(
        ReportProblem(.error, "Packets that the log's writer lost: \(log.drops).", isLoss: true))
    }
    if log.cut > 0 {
      problems.append(ReportProblem(.error, "Records that the log's writer cut: \(log.cut).", isLoss: true))
    }
    if log.malformed > 0 {
      problems.append(ReportProblem(.warning, "Malformed packets: \(log.malformed)."))
    }
    for text in StatisticsText.clockSteps(log) {
      problems.append(ReportProblem(.warning, text.prefix(1).uppercased() + text.dropFirst() + "."))
    }
    if log.omittedConnections > 0 {
      problems.append(
        ReportProblem(.warning, "\(log.omittedConnections) later connections are counted, not shown."))
    }
  }
}

/// State while reading a log.
private struct PacketScan: ~Copyable {
  struct Link {
    var conversation = ATTConversation()
    var streams = LogStreams()
  }

  private(set) var links: [LogDevice: Link] = [:]
  private(set) var drops: [ReportSection.Mark] = []
  private var statistics = LogStatistics()
  private var decoder = PacketDecoder()
  private let depth: PacketSurvey.Depth
  private var lastDrops: UInt32 = 0
  private var clockSteps = 0
  private var lastTime: Int64?

  init(_ depth: PacketSurvey.Depth) { self.depth = depth }

  mutating func take(_ record: borrowing PacketRecord) {
    statistics.take(record)
    note(record.header.cumulativeDrops, at: record.time.nanoseconds)
    let depth = depth
    var links = links
    self.links = [:]
    if record.header.clockSteps > clockSteps {
      clockSteps = record.header.clockSteps
      for device in links.keys { links[device]?.streams.noteClockStep() }
    }
    decoder.decode(record) { packet in
      guard packet.concernsReadings, let device = packet.device else { return }
      if packet.att != nil { links[device, default: Link()].conversation.take(packet) }
      if depth == .samples { links[device, default: Link()].streams.take(packet) }
    }
    self.links = links
  }

  private mutating func note(_ cumulative: UInt32, at time: Int64) {
    if cumulative > lastDrops {
      drops.append(
        ReportSection.Mark(
          from: lastTime ?? time, to: time, kind: .loss,
          text: "the log's writer lost \(counted(Int(cumulative - lastDrops), "packet"))",
          loss: ReportSection.Loss(count: Int(cumulative - lastDrops), unit: .packet)))
    }
    lastDrops = cumulative
    lastTime = time
  }

  consuming func finish() -> LogReport { statistics.finish() }
}

extension PacketSurvey.Device {
  /// Histograms of the intervals between updates, for the attributes with the most updates, and of response
  /// times.
  var histograms: [ReportSection.Histogram] {
    let updates = Self.most(
      connections.flatMap { $0.attributes.map { ($0.handle.rawValue, $0.intervalHistogram) } })
    let answers = Self.most(
      connections.flatMap { $0.requests.map { ($0.opcode.rawValue, $0.latencyHistogram) } })
    return updates.map {
      ReportSection.Histogram(
        title: "From update to update, attribute 0x" + hexadecimal($0.key), durations: $0.durations)
    }
      + answers.map {
        ReportSection.Histogram(
          title: "\(ATTConversation.name($0.key)): until its response", durations: $0.durations)
      }
  }

  /// Merges histograms with the same key, and returns the keys with the most durations.
  private static func most<Key: Equatable>(
    _ parts: [(Key, LogLinearHistogram)]
  ) -> [(key: Key, durations: LogLinearHistogram)] {
    var sums: [(key: Key, durations: LogLinearHistogram)] = []
    for (key, durations) in parts where durations.count > 0 {
      if let place = sums.firstIndex(where: { $0.key == key }) {
        sums[place].durations.add(durations)
      } else {
        sums.append((key, durations))
      }
    }
    return Array(sums.sorted { $0.durations.count > $1.durations.count }.prefix(histogramLimit))
  }

  private static let histogramLimit = 4

  /// Changes of the connection parameters.
  var changes: [ReportSection.Change] {
    connections.flatMap { connection in
      let first = connection.parameters.map {
        ReportSection.Change(time: connection.startTime.nanoseconds, text: StatisticsText.text($0))
      }
      return [first].compactMap(\.self)
        + connection.changes.map {
          ReportSection.Change(time: $0.time.nanoseconds, text: StatisticsText.text($0.value))
        }
    }
  }

  /// Connection intervals in milliseconds, each with its start time.
  var intervals: [(time: Int64, milliseconds: Double)] {
    connections.flatMap { connection in
      var steps: [(time: Int64, milliseconds: Double)] = []
      if let parameters = connection.parameters {
        steps.append((connection.startTime.nanoseconds, parameters.intervalMilliseconds))
      }
      for change in connection.changes {
        if case .timing(let parameters) = change.value {
          steps.append((change.time.nanoseconds, parameters.intervalMilliseconds))
        }
      }
      return steps
    }
  }

  /// Marks for the ends of connections, and for the time until the next connection.
  var connectionMarks: [ReportSection.Mark] {
    connections.indices.map { index in
      let connection = connections[index]
      let end = connection.endTime.nanoseconds
      let text = StatisticsText.text(connection.end)
      guard index + 1 < connections.count, connections[index + 1].startTime.nanoseconds > end else {
        return ReportSection.Mark(from: end, to: end, kind: .event, text: "connection \(index + 1) \(text)")
      }
      return ReportSection.Mark(
        from: end, to: connections[index + 1].startTime.nanoseconds, kind: .gap,
        text: "no connection; the one before \(text)")
    }
  }

  /// Marks for the longest pauses of attributes that send updates regularly.
  var pauses: [ReportSection.Mark] {
    connections.flatMap { connection in
      connection.attributes.flatMap { attribute in
        attribute.gaps.map { gap in
          ReportSection.Mark(
            from: gap.time.nanoseconds, to: gap.time.nanoseconds &+ gap.duration, kind: .pause,
            text: "no update of attribute 0x" + hexadecimal(attribute.handle.rawValue))
        }
      }
    }
  }
}

/// Formats the number with four hexadecimal digits.
private func hexadecimal(_ number: UInt16) -> String {
  BLEWire.hexadecimal(UInt8(number >> 8)) + BLEWire.hexadecimal(UInt8(number & 0xFF))
}
