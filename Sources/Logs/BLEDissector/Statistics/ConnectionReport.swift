package import BLEWire

/// What a log says about one connection.
package struct ConnectionReport: Sendable {
  package enum Transport: Hashable, Sendable { case lowEnergy, classic }

  package enum Origin: Hashable, Sendable {
    /// The log has its Connection Complete.
    case connected
    /// Data of a handle whose Connection Complete the log does not have.
    case middle
  }

  package enum End: Hashable, Sendable {
    /// Disconnection Complete, with its reason.
    case disconnected(HCIStatus)
    /// Its handle came back for a new connection, so the log misses its end.
    case replaced
    /// More connections at once than are followed; this one was silent for longest.
    case evicted
    /// The log ends before it.
    case endOfLog
  }

  /// One direction across the host–controller interface: ACL packets and the octets of data in them, L2CAP
  /// headers included.
  package struct Traffic: Hashable, Sendable {
    package var packets = 0
    package var octets = 0
  }

  /// The most changes of parameters that are listed; the rest is counted.
  package static let maximumChanges = 32

  package var adapter: UInt16
  package var handle: ConnectionHandle
  package var transport = Transport.lowEnergy
  package var origin: Origin
  package var end = End.endOfLog
  package var startTime: ReceiveTime
  /// Of the last packet, or of the end.
  package var endTime: ReceiveTime
  package var peer: DeviceAddress?
  package var role: LEConnectionComplete.Role?
  /// As the connection came up.
  package var parameters: LinkParameters?
  package var changes: [ParameterChange] = []
  package var omittedChanges = 0
  package var sent = Traffic()
  package var received = Traffic()
  /// Packets that Number Of Completed Packets gave back; `nil` where the log has no events at all.
  package var completedPackets: Int?
  package var attributes: [AttributeReport] = []
  /// Notifications and indications of attributes beyond the limit.
  package var omittedUpdates = 0
  package var requests: [RequestReport] = []
  /// Responses and confirmations that nothing asked for.
  package var unaskedResponses = 0
  package var malformed = 0
  /// Frames of which the log's writer kept less than there was.
  package var cut = 0
  /// Packets that the log's writer lost meanwhile, of any connection.
  package var drops = 0
  /// Notifications and indications over time, from `startTime`.
  package var timeline = RateTimeline()

  /// Nanoseconds.
  package var duration: Int64 { nanoseconds(from: startTime, to: endTime) }

  /// ACL packets that were still with the controller at the end; `nil` where the log cannot tell.
  package var uncompletedPackets: Int? { completedPackets.map { max(0, sent.packets - $0) } }

  /// Octets a second; 0 where no time passed.
  package func throughput(_ traffic: Traffic) -> Double {
    duration > 0 ? Double(traffic.octets) * 1e9 / Double(duration) : 0
  }
}

/// From when on something else was in force.
package struct ParameterChange: Hashable, Sendable {
  package enum Value: Hashable, Sendable {
    case timing(LinkParameters)
    /// Raw values of `LEPHY`, as the event has them.
    case phy(transmit: UInt8, receive: UInt8)
    /// Octets of a data packet.
    case dataLength(transmit: UInt16, receive: UInt16)
    /// Octets: the lesser of what both sides offered. Core 5.4, Vol 3, Part F, 3.4.2.2.
    case mtu(Int)
    /// A request for other parameters that came to nothing.
    case refused(HCIStatus)
  }

  package var time: ReceiveTime
  package var value: Value
}

/// Notifications or indications of one attribute in one direction.
package struct AttributeReport: Sendable {
  /// A pause between two updates.
  package struct Gap: Hashable, Sendable {
    /// Of the last update before it.
    package var time: ReceiveTime
    /// Nanoseconds.
    package var duration: Int64
  }

  /// The longest pauses that are listed.
  package static let maximumGaps = 10
  /// A gap is longer than so many times the median interval, or the mean where that is longer: in a stream
  /// that comes in bursts the median is the distance inside a burst.
  package static let gapFactor = 5.0

  package var handle: AttributeHandle
  /// Handle Value Notification (also from the Multiple form) or Indication.
  package var opcode: ATTOpcode
  package var direction: HCIDirection
  package var count: Int
  /// Octets of values.
  package var octets: Int
  /// From one update to the next.
  package var intervals: DurationSummary?
  package var intervalHistogram: LogLinearHistogram
  /// How much an interval differs from the one before it, without sign: |D(i−1, i)| of RFC 3550, 6.4.1.
  package var jitter: DurationSummary?
  /// To the resolution of the histogram.
  package var gapCount: Int
  /// The longest first.
  package var gaps: [Gap]
}

/// Requests of one opcode from one side, or indications with their confirmations.
package struct RequestReport: Sendable {
  package var opcode: ATTOpcode
  /// Of the request.
  package var direction: HCIDirection
  package var count: Int
  /// Answered by an Error Response.
  package var errors: Int
  package var unanswered: Int
  /// From the packet that completes the request to the one that completes its answer.
  package var latency: DurationSummary?
  package var latencyHistogram: LogLinearHistogram
}

/// Zero where time went backwards.
func nanoseconds(from start: ReceiveTime, to end: ReceiveTime) -> Int64 {
  let (difference, overflow) = end.nanoseconds.subtractingReportingOverflow(start.nanoseconds)
  if overflow { return end < start ? 0 : .max }
  return max(0, difference)
}
