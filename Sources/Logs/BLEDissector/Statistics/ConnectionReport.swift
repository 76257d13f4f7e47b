package import BLEWire

/// Statistics of one connection in a log.
package struct ConnectionReport: Sendable {
  package enum Transport: Hashable, Sendable { case lowEnergy, classic }

  package enum Origin: Hashable, Sendable {
    /// The log contains the connection's Connection Complete event.
    case connected
    /// The log contains data with the connection's handle, but no Connection Complete event.
    case middle
  }

  package enum End: Hashable, Sendable {
    /// The log contains the Disconnection Complete event, with this reason.
    case disconnected(HCIStatus)
    /// The log does not contain the end of the connection. A new connection has reused the handle.
    case replaced
    /// The connection was the least recently used when the maximum number of open connections was reached.
    case evicted
    /// The connection was open at the end of the log.
    case endOfLog
  }

  /// Traffic in one direction between host and controller: the number of ACL packets and of their data bytes,
  /// including L2CAP headers.
  package struct Traffic: Hashable, Sendable {
    package var packets = 0
    package var octets = 0
  }

  /// Maximum number of parameter changes listed. Further changes are only counted.
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
  /// Number of packets in Number Of Completed Packets events; `nil` if the log contains no events.
  package var completedPackets: Int?
  package var attributes: [AttributeReport] = []
  /// Number of notifications and indications of attributes that exceed the limit and are not listed.
  package var omittedUpdates = 0
  package var requests: [RequestReport] = []
  /// Number of responses and confirmations for which no request or indication was pending.
  package var unaskedResponses = 0
  package var malformed = 0
  /// Number of frames that the capturing program truncated.
  package var cut = 0
  /// Number of packets, of any connection, that the capturing program lost during this connection.
  package var drops = 0
  /// Notifications and indications over time, starting at `startTime`.
  package var timeline = RateTimeline()

  /// Duration in nanoseconds.
  package var duration: Int64 { nanoseconds(from: startTime, to: endTime) }

  /// Number of ACL packets still in the controller at the end; `nil` if unknown.
  package var uncompletedPackets: Int? { completedPackets.map { max(0, sent.packets - $0) } }

  /// Returns the number of bytes per second; 0 if the duration is 0.
  package func throughput(_ traffic: Traffic) -> Double {
    duration > 0 ? Double(traffic.octets) * 1e9 / Double(duration) : 0
  }
}

/// A change of link parameters.
package struct ParameterChange: Hashable, Sendable {
  package enum Value: Hashable, Sendable {
    case timing(LinkParameters)
    /// Raw values of `LEPHY` from the event.
    case phy(transmit: UInt8, receive: UInt8)
    /// Maximum payload sizes of a data packet, in bytes.
    case dataLength(transmit: UInt16, receive: UInt16)
    /// ATT_MTU in bytes: the smaller of the values that the two sides offered. Core 5.4, Vol 3, Part F,
    /// 3.4.2.2.
    case mtu(Int)
    /// A request for parameters that was rejected or failed.
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

  /// Maximum number of gaps listed.
  package static let maximumGaps = 10
  /// Minimum duration of a gap, as a multiple of the median interval, or of the mean interval if the mean is
  /// longer. In a stream that arrives in bursts, the median is the interval within a burst.
  package static let gapFactor = 5.0

  package var handle: AttributeHandle
  /// Opcode: Handle Value Notification (including Multiple Handle Value Notification) or Handle Value
  /// Indication.
  package var opcode: ATTOpcode
  package var direction: HCIDirection
  package var count: Int
  /// Total size of the values, in bytes.
  package var octets: Int
  /// Summary of the intervals between consecutive updates.
  package var intervals: DurationSummary?
  package var intervalHistogram: LogLinearHistogram
  /// Summary of the absolute differences between consecutive intervals: |D(i−1, i)| of RFC 3550, 6.4.1.
  package var jitter: DurationSummary?
  /// Number of gaps. The buckets of the histogram limit the accuracy.
  package var gapCount: Int
  /// The longest gaps, longest first.
  package var gaps: [Gap]
}

/// Requests with one opcode from one side, or indications and their confirmations.
package struct RequestReport: Sendable {
  package var opcode: ATTOpcode
  /// Direction of the request.
  package var direction: HCIDirection
  package var count: Int
  /// Number of requests that were answered with an Error Response.
  package var errors: Int
  package var unanswered: Int
  /// Summary of the times from the packet that completes a request to the packet that completes its response.
  package var latency: DurationSummary?
  package var latencyHistogram: LogLinearHistogram
}

/// Returns the time from `start` to `end`; 0 if `end` is earlier.
func nanoseconds(from start: ReceiveTime, to end: ReceiveTime) -> Int64 {
  let (difference, overflow) = end.nanoseconds.subtractingReportingOverflow(start.nanoseconds)
  if overflow { return end < start ? 0 : .max }
  return max(0, difference)
}

/// Number of events over time, in a bounded number of equal bins. When all bins are in use, pairs of bins are
/// merged.
package struct RateTimeline: Sendable {
  /// Maximum number of bins: twice as many as a picture can show.
  package static let maximumBins = 512

  /// Width of a bin in nanoseconds; initially 125 ms.
  package private(set) var binWidth: Int64 = 125_000_000
  package private(set) var counts: [UInt32] = []

  package init() {}

  /// Adds an event.
  ///
  /// - Parameter offset: nanoseconds since the start; a negative value counts as 0.
  package mutating func add(at offset: Int64) {
    var index = max(0, offset) / binWidth
    while index >= Self.maximumBins {
      halve()
      index = max(0, offset) / binWidth
    }
    let bin = Int(index)
    if bin >= counts.count { counts.append(contentsOf: repeatElement(0, count: bin + 1 - counts.count)) }
    counts[bin] &+= 1
  }

  /// Merges pairs of bins.
  package mutating func halve() {
    binWidth *= 2
    for index in 0..<(counts.count + 1) / 2 {
      let second = 2 * index + 1 < counts.count ? counts[2 * index + 1] : 0
      counts[index] = counts[2 * index] &+ second
    }
    counts.removeLast(counts.count / 2)
  }
}
