package import BLEWire

/// Statistics of one connection in a log.
package struct ConnectionReport: Sendable {
  package enum Transport: Hashable, Sendable { case lowEnergy, classic }

  package enum Origin: Hashable, Sendable {
    /// The log contains its Connection Complete.
    case connected
    /// The log contains data for a handle, but no Connection Complete event.
    case middle
  }

  package enum End: Hashable, Sendable {
    /// Disconnection Complete, with its reason.
    case disconnected(HCIStatus)
    /// The log lacks the end of the connection: its handle was reused for a new one.
    case replaced
    /// The limit of open connections was reached, and this one was least recently used.
    case evicted
    /// The log ends before the connection.
    case endOfLog
  }

  /// Traffic in one direction across the host–controller interface: ACL packets, and bytes of data in them
  /// including L2CAP headers.
  package struct Traffic: Hashable, Sendable {
    package var packets = 0
    package var octets = 0
  }

  /// Maximum number of parameter changes listed; the rest is counted.
  package static let maximumChanges = 32

  package var adapter: UInt16
  package var handle: ConnectionHandle
  package var transport = Transport.lowEnergy
  package var origin: Origin
  package var end = End.endOfLog
  package var startTime: ReceiveTime
  /// Time of the last packet, or of the disconnection.
  package var endTime: ReceiveTime
  package var peer: DeviceAddress?
  package var role: LEConnectionComplete.Role?
  /// Parameters at the start of the connection.
  package var parameters: LinkParameters?
  package var changes: [ParameterChange] = []
  package var omittedChanges = 0
  package var sent = Traffic()
  package var received = Traffic()
  /// Packets returned by Number Of Completed Packets; `nil` if the log has no events at all.
  package var completedPackets: Int?
  package var attributes: [AttributeReport] = []
  /// Notifications and indications of attributes beyond the limit.
  package var omittedUpdates = 0
  package var requests: [RequestReport] = []
  /// Responses and confirmations without a pending request or indication.
  package var unaskedResponses = 0
  package var malformed = 0
  /// Frames that were cut by the log's writer.
  package var cut = 0
  /// Packets that the log's writer lost during the connection, of any connection.
  package var drops = 0
  /// Notifications and indications over time, from `startTime`.
  package var timeline = RateTimeline()

  /// Duration in nanoseconds.
  package var duration: Int64 { nanoseconds(from: startTime, to: endTime) }

  /// ACL packets still in the controller at the end; `nil` if unknown.
  package var uncompletedPackets: Int? { completedPackets.map { max(0, sent.packets - $0) } }

  /// Returns bytes per second; 0 for a duration of 0.
  package func throughput(_ traffic: Traffic) -> Double {
    duration > 0 ? Double(traffic.octets) * 1e9 / Double(duration) : 0
  }
}

/// A change of link parameters.
package struct ParameterChange: Hashable, Sendable {
  package enum Value: Hashable, Sendable {
    case timing(LinkParameters)
    /// Raw values of `LEPHY`, as in the event.
    case phy(transmit: UInt8, receive: UInt8)
    /// Maximum payload of a data packet, in bytes.
    case dataLength(transmit: UInt16, receive: UInt16)
    /// ATT_MTU in bytes: the smaller of the two sides' values. Core 5.4, Vol 3, Part F, 3.4.2.2.
    case mtu(Int)
    /// A rejected or failed parameter request.
    case refused(HCIStatus)
  }

  package var time: ReceiveTime
  package var value: Value
}

/// Notifications or indications of one attribute in one direction.
package struct AttributeReport: Sendable {
  /// A pause between two updates.
  package struct Gap: Hashable, Sendable {
    /// Time of the last update before the pause.
    package var time: ReceiveTime
    /// Duration in nanoseconds.
    package var duration: Int64
  }

  /// Maximum number of pauses listed.
  package static let maximumGaps = 10
  /// A gap is longer than this multiple of the median interval, or of the mean interval if that is longer. In
  /// a stream that arrives in bursts, the median is the interval within a burst.
  package static let gapFactor = 5.0

  package var handle: AttributeHandle
  /// Handle Value Notification (including the Multiple form) or Indication.
  package var opcode: ATTOpcode
  package var direction: HCIDirection
  package var count: Int
  /// Total size of the values, in bytes.
  package var octets: Int
  /// Time between consecutive updates.
  package var intervals: DurationSummary?
  package var intervalHistogram: LogLinearHistogram
  /// Absolute difference between consecutive intervals: |D(i−1, i)| of RFC 3550, 6.4.1.
  package var jitter: DurationSummary?
  /// Number of gaps, to the resolution of the histogram.
  package var gapCount: Int
  /// The longest first.
  package var gaps: [Gap]
}

/// Requests of one opcode from one side, or indications with their confirmations.
package struct RequestReport: Sendable {
  package var opcode: ATTOpcode
  /// Direction of the request.
  package var direction: HCIDirection
  package var count: Int
  /// Requests that got an Error Response.
  package var errors: Int
  package var unanswered: Int
  /// Time from the packet that completes the request to the packet that completes the response.
  package var latency: DurationSummary?
  package var latencyHistogram: LogLinearHistogram
}

/// Returns the time from `start` to `end`, or 0 if time went backwards.
func nanoseconds(from start: ReceiveTime, to end: ReceiveTime) -> Int64 {
  let (difference, overflow) = end.nanoseconds.subtractingReportingOverflow(start.nanoseconds)
  if overflow { return end < start ? 0 : .max }
  return max(0, difference)
}
