import BLECore
import BLEPacketLog
import BLEWire

/// The members `links`, `timeToFirstSampleMs`, `medianRecoveryMs` and `gaps` of `session.json`: what the link cost.
extension SessionReport {
  func encodeGaps(_ line: inout JSONLine) {
    line.member("links", linkCount)
    if let timeToFirstSample { line.member("timeToFirstSampleMs", Self.milliseconds(timeToFirstSample)) }
    if let median = gaps.medianRecoveryNanoseconds {
      line.member("medianRecoveryMs", Self.milliseconds(median))
    }
    line.member("gapCount", gapCount)
    line.member("gaps", array: { line in for gap in gaps { line.object { Self.encode(gap, &$0) } } })
  }

  private static func encode(_ gap: SessionGap, _ line: inout JSONLine) {
    line.member("cause", "\(gap.end)")
    if let reason = gap.reason { line.member("reason", reason) }
    if let time = gap.lastSampleAt { line.member("lastSampleAtNs", time.nanoseconds) }
    line.member("lostAtNs", gap.lostAt.nanoseconds)
    line.member("attempts", gap.attempts)
    line.member(
      "failures",
      array: { line in
        for failure in gap.failures {
          line.object { line in
            line.member("timeNs", failure.time.nanoseconds)
            line.member("why", "\(failure.error)")
            if let reason = failure.reason { line.member("reason", reason) }
          }
        }
      })
    if let time = gap.connectedAt { line.member("connectedAtNs", time.nanoseconds) }
    if let time = gap.firstSampleAt { line.member("firstSampleAtNs", time.nanoseconds) }
    if let recovery = gap.recoveryNanoseconds { line.member("recoveryMs", milliseconds(recovery)) }
    if let length = gap.lengthNanoseconds { line.member("lengthMs", milliseconds(length)) }
  }

  /// To the microsecond.
  private static func milliseconds(_ nanoseconds: Int64) -> Double {
    (Double(nanoseconds) / 1000).rounded() / 1000
  }
}

extension JSONLine {
  mutating func member(_ name: String, _ reason: HCIStatus) {
    member(name) { line in
      line.member("code", reason.rawValue)
      line.member("name", reason.name)
    }
  }
}
