package import BLEPacketLog
package import BLEWire

/// Statistics of a log, computed by `LogStatistics`.
package struct LogReport: Sendable {
  /// Number of packets of one type in each direction, and their size in bytes without the type byte.
  package struct PacketCount: Hashable, Sendable {
    package var type: HCIPacketType
    package var sent = 0
    package var received = 0
    package var octets = 0
  }

  package struct PacketCounts: Sendable {
    /// Counts in the order in which the types first appear in the log.
    package private(set) var counts: [PacketCount] = []

    mutating func add(_ type: HCIPacketType, _ direction: HCIDirection, octets: Int) {
      let index = counts.firstIndex { $0.type == type } ?? counts.count
      if index == counts.count { counts.append(PacketCount(type: type)) }
      counts[index].octets += octets
      switch direction {
      case .hostToController: counts[index].sent += 1
      case .controllerToHost: counts[index].received += 1
      }
    }
  }

  package struct Event: Hashable, Sendable {
    package var code: HCIEventCode
    /// Subevent code of an LE Meta event.
    package var subevent: UInt8?

    package var name: String {
      guard let subevent else { return code.logName }
      return LESubevent(rawValue: subevent).logName
    }
  }

  package struct CommandError: Hashable, Sendable {
    package var opcode: HCIOpcode
    package var status: HCIStatus
  }

  package var records = 0
  /// Number of records that are not packets: the notes of btsnoop format 2001.
  package var notes = 0
  package var packets = PacketCounts()
  package var firstTime: ReceiveTime?
  package var lastTime: ReceiveTime?
  /// Number of records with an earlier time than the previous record.
  package var timeReversals = 0
  /// Number of records that got the time of a neighbour, because they were older than the previous record or
  /// had an impossible time.
  package private(set) var disorderedRecords = 0
  /// Places at which the clock of the program that wrote the log was set, or may have been set. Timestamps are
  /// corrected for certain steps only.
  package var clockSteps: [LogClockStep] = []
  package var clockStepCount = 0
  package var drops = 0
  package var malformed = 0
  /// Number of records that the program that wrote the log truncated.
  package var cut = 0
  /// Number of data packets that arrived up to a second after the end of their connection.
  package var latePackets = 0
  /// Number of commands by opcode.
  package var commands: [UInt16: Int] = [:]
  package var commandErrors: [CommandError: Int] = [:]
  package var events: [Event: Int] = [:]
  /// Connections in order of their start.
  package var connections: [ConnectionReport] = []
  package var omittedConnections = 0
  /// Report about the air packets of a sniffer log.
  package var air: AirReport?
  /// Intervals between consecutive updates of an attribute, for all connections.
  package var intervals = LogLinearHistogram()
  /// Request statistics by opcode and direction, summed over all connections.
  private var requestStatistics: [RequestStatistics] = []

  package init() {}

  package mutating func take(_ timeline: LogTimeline) {
    (clockSteps, clockStepCount) = (timeline.clockSteps, timeline.clockStepCount)
    disorderedRecords = timeline.disorderedRecords
    timeReversals += disorderedRecords
  }

  package var requests: [RequestReport] { requestStatistics.map(\.report) }

  mutating func add(_ request: RequestStatistics) {
    let index = requestStatistics.firstIndex {
      $0.opcode == request.opcode && $0.direction == request.direction
    }
    guard let index else {
      requestStatistics.append(request)
      return
    }
    requestStatistics[index].count += request.count
    requestStatistics[index].errors += request.errors
    requestStatistics[index].unanswered += request.unanswered
    requestStatistics[index].latency.add(request.latency)
  }

  /// Time from the earliest record to the latest, in nanoseconds.
  package var duration: Int64 {
    guard let firstTime, let lastTime else { return 0 }
    return nanoseconds(from: firstTime, to: lastTime)
  }
}
