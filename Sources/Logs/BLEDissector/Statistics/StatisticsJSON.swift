import BLEPacketLog
import BLEWire
import JSONText

extension JSONLine {
  private mutating func clockSteps(of report: LogReport) {
    member("clockStepCount", report.clockStepCount)
    key("clockSteps")
    array { line in
      for step in report.clockSteps {
        line.object { line in
          line.member("index", step.index)
          line.member("afterNs", step.after)
          line.member("seenAtNs", step.seenAt)
          line.member("stepMs", Double(step.span.nanoseconds) / 1e6)
          line.member("isCertain", step.isCertain)
        }
      }
    }
  }

  /// Writes the object of `ringtap log stats --json`. Durations are in nanoseconds, and times are relative to
  /// the Unix epoch.
  package mutating func value(_ report: LogReport) {
    object { line in
      line.member("records", report.records)
      line.member("notes", report.notes)
      if let first = report.firstTime { line.member("firstTimeNs", first) }
      if let last = report.lastTime { line.member("lastTimeNs", last) }
      line.member("durationNs", report.duration)
      line.member("dropped", report.drops)
      line.member("cut", report.cut)
      line.member("malformed", report.malformed)
      line.member("latePackets", report.latePackets)
      line.member("timeReversals", report.timeReversals)
      if report.clockStepCount > 0 { line.clockSteps(of: report) }
      line.member("percentileRelativeError", LogLinearHistogram.relativeError)
      line.key("packets")
      line.array { line in
        for count in report.packets.counts { line.value(count) }
      }
      line.key("commands")
      line.array { line in
        for (opcode, count) in report.commands.sorted(by: { $0.key < $1.key }) {
          line.object { line in
            line.member("opcode", opcode)
            line.member("name", HCIOpcode(rawValue: opcode).logName)
            line.member("count", count)
          }
        }
      }
      line.key("commandErrors")
      line.array { line in
        for (error, count) in report.sortedCommandErrors {
          line.object { line in
            line.member("opcode", error.opcode.rawValue)
            line.member("name", error.opcode.logName)
            line.member("status", error.status.rawValue)
            line.member("statusName", error.status.name)
            line.member("count", count)
          }
        }
      }
      line.key("events")
      line.array { line in
        for (event, count) in report.sortedEvents {
          line.object { line in
            line.member("code", event.code.rawValue)
            if let subevent = event.subevent { line.member("subevent", subevent) }
            line.member("name", event.name)
            line.member("count", count)
          }
        }
      }
      line.member("intervalNs", DurationSummary(report.intervals))
      line.key("requests")
      line.array { line in
        for request in report.requests { line.value(request) }
      }
      line.key("connections")
      line.array { line in
        for connection in report.connections { line.value(connection) }
      }
      line.member("omittedConnections", report.omittedConnections)
      if let air = report.air {
        line.key("air")
        line.value(air)
      }
    }
  }

  private mutating func value(_ count: LogReport.PacketCount) {
    object { line in
      line.member("packetType", count.type.name)
      line.member("sent", count.sent)
      line.member("received", count.received)
      line.member("octets", count.octets)
    }
  }

  private mutating func value(_ connection: ConnectionReport) {
    object { line in
      line.member("adapter", connection.adapter)
      line.member("connectionHandle", connection.handle.rawValue)
      line.member("transport", connection.transport == .classic ? "classic" : "lowEnergy")
      line.member("seenFromMiddle", connection.origin == .middle)
      if let peer = connection.peer {
        line.member("address", peer.description)
        line.member("addressType", peer.type.name)
      }
      if let role = connection.role { line.member("role", role == .central ? "central" : "peripheral") }
      line.member("startTimeNs", connection.startTime)
      line.member("endTimeNs", connection.endTime)
      line.member("durationNs", connection.duration)
      line.member(connection.end)
      if let parameters = connection.parameters {
        line.key("parameters")
        line.object { $0.members(parameters) }
      }
      line.key("changes")
      line.array { line in
        for change in connection.changes { line.value(change) }
      }
      line.member("omittedChanges", connection.omittedChanges)
      for (name, traffic) in [("sent", connection.sent), ("received", connection.received)] {
        line.key(name)
        line.object { line in
          line.member("packets", traffic.packets)
          line.member("octets", traffic.octets)
          line.member("octetsPerSecond", connection.throughput(traffic))
        }
      }
      if let uncompleted = connection.uncompletedPackets { line.member("uncompletedPackets", uncompleted) }
      line.member("cut", connection.cut)
      line.member("malformed", connection.malformed)
      line.member("dropped", connection.drops)
      line.member("unaskedResponses", connection.unaskedResponses)
      line.member("omittedUpdates", connection.omittedUpdates)
      line.key("attributes")
      line.array { line in
        for attribute in connection.attributes { line.value(attribute) }
      }
      line.key("requests")
      line.array { line in
        for request in connection.requests { line.value(request) }
      }
    }
  }

  private mutating func member(_ end: ConnectionReport.End) {
    switch end {
    case .disconnected(let reason):
      member("end", "disconnected")
      member("reason", reason.rawValue)
      member("reasonName", reason.name)
    case .replaced: member("end", "replaced")
    case .evicted: member("end", "evicted")
    case .endOfLog: member("end", "endOfLog")
    }
  }

  private mutating func members(_ parameters: LinkParameters) {
    member("intervalMs", parameters.intervalMilliseconds)
    member("latency", parameters.latency)
    member("timeoutMs", parameters.supervisionTimeoutMilliseconds)
  }

  private mutating func value(_ change: ParameterChange) {
    object { line in
      line.member("timeNs", change.time)
      switch change.value {
      case .timing(let parameters): line.members(parameters)
      case .phy(let transmit, let receive):
        line.member("transmitPHY", transmit)
        line.member("receivePHY", receive)
      case .dataLength(let transmit, let receive):
        line.member("transmitOctets", transmit)
        line.member("receiveOctets", receive)
      case .mtu(let mtu): line.member("mtu", mtu)
      case .refused(let status):
        line.member("status", status.rawValue)
        line.member("statusName", status.name)
      }
    }
  }

  private mutating func value(_ attribute: AttributeReport) {
    object { line in
      line.member("handle", attribute.handle.rawValue)
      line.member("opcode", attribute.opcode.rawValue)
      line.member("direction", attribute.direction.name)
      line.member("count", attribute.count)
      line.member("octets", attribute.octets)
      line.member("intervalNs", attribute.intervals)
      line.member("jitterNs", attribute.jitter)
      line.member("gapCount", attribute.gapCount)
      line.key("gaps")
      line.array { line in
        for gap in attribute.gaps {
          line.object { line in
            line.member("timeNs", gap.time)
            line.member("durationNs", gap.duration)
          }
        }
      }
    }
  }

  private mutating func value(_ request: RequestReport) {
    object { line in
      line.member("opcode", request.opcode.rawValue)
      line.member("name", request.opcode.name)
      line.member("direction", request.direction.name)
      line.member("count", request.count)
      line.member("errors", request.errors)
      line.member("unanswered", request.unanswered)
      line.member("latencyNs", request.latency)
    }
  }

  private mutating func member(_ name: String, _ summary: DurationSummary?) {
    guard let summary else { return }
    key(name)
    object { line in
      line.member("count", summary.count)
      line.member("min", summary.minimum)
      line.member("mean", summary.mean)
      line.member("p50", summary.p50)
      line.member("p90", summary.p90)
      line.member("p99", summary.p99)
      line.member("p999", summary.p999)
      line.member("max", summary.maximum)
    }
  }
}
