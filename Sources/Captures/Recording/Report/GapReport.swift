import BLEHost
import BLEWire
import JSONText
import SensorSessions

/// Effects of lost links: the members `links`, `firstSampleAtNs`, `lastSampleAtNs`, `timeToFirstSampleMs`,
/// `attRequests`, `medianRecoveryMs`, `unsubscribedValues` and `gaps` of `session.json`.
extension SessionReport {
  func encodeGaps(_ line: inout JSONLine) {
    line.member("links", linkCount)
    if let time = firstSampleAt { line.member("firstSampleAtNs", time) }
    if let time = lastSampleAt { line.member("lastSampleAtNs", time) }
    if let timeToFirstSample { line.member("timeToFirstSampleMs", Self.milliseconds(timeToFirstSample)) }
    if let median = gaps.medianRecoveryNanoseconds {
      line.member("medianRecoveryMs", Self.milliseconds(median))
    }
    line.member("attRequests") { line in
      line.member("total", attRequests)
      line.member(
        "beforeFirstSample",
        array: { line in for count in requestsBeforeFirstSample { line.value(count) } })
      line.member("linksWithKnownAttributes", linksWithKnownAttributes)
      line.member("strayResponses", strayResponses)
    }
    line.member("unsubscribedValues", unsubscribedValues)
    if !remarks.isEmpty {
      line.member("remarks", array: { line in for remark in remarks { line.value("\(remark)") } })
    }
    line.member("gapCount", gapCount)
    line.member("gaps", array: { line in for gap in gaps { line.object { Self.encode(gap, &$0) } } })
  }

  private static func encode(_ gap: SessionGap, _ line: inout JSONLine) {
    line.member("cause", "\(gap.end)")
    if let reason = gap.reason { line.member("reason", reason) }
    if let time = gap.lastSampleAt { line.member("lastSampleAtNs", time) }
    line.member("lostAtNs", gap.lostAt)
    if gap.pause > .zero {
      line.member("pauseMs", Int(gap.pause / .milliseconds(1)))
      line.member("shortLinks", gap.shortLinks)
    }
    line.member("attempts", gap.attempts)
    line.member(
      "failures",
      array: { line in
        for failure in gap.failures {
          line.object { line in
            line.member("timeNs", failure.time)
            line.member("why", "\(failure.error)")
            if let reason = failure.reason { line.member("reason", reason) }
          }
        }
      })
    if let time = gap.connectedAt { line.member("connectedAtNs", time) }
    if let time = gap.firstSampleAt { line.member("firstSampleAtNs", time) }
    if let count = gap.requestsBeforeFirstSample { line.member("attRequests", count) }
    if let recovery = gap.recoveryNanoseconds { line.member("recoveryMs", milliseconds(recovery)) }
    if let length = gap.lengthNanoseconds { line.member("lengthMs", milliseconds(length)) }
  }

  /// Rounded to the microsecond.
  static func milliseconds(_ nanoseconds: Int64) -> Double {
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

extension SessionReport {
  /// Takes the properties of the links from a session that has ended.
  mutating func take(_ session: DeviceSession) async {
    let statistics = await session.statistics
    malformed = statistics.malformed
    lastMalformed = statistics.lastMalformed?.description
    withoutKernelStamp = statistics.withoutKernelStamp
    lost.kernelQueue = statistics.kernelQueueDrops
    asked = session.plan.request
    gaps = await session.gaps
    gapCount = await session.gapCount
    linkCount = await session.linkCount
    attRequests = statistics.requests
    strayResponses = statistics.strayResponses
    unsubscribedValues = statistics.unsubscribed
    remarks = await session.remarks
    firstSampleAt = await session.firstSampleAt
    lastSampleAt = await session.lastSampleAt
    fill(await session.links)
  }

  private mutating func fill(_ links: [DeviceSession.LinkSummary]) {
    // Each link is requested the same parameters, so repeated refusals are dropped.
    for change in links.flatMap(\.changes) {
      if case .refused = change.value, changes.contains(where: { $0.value == change.value }) { continue }
      changes.append(change)
    }
    requestsBeforeFirstSample = links.compactMap(\.requestsBeforeFirstSample)
    linksWithKnownAttributes = links.count(where: \.usedEarlierDiscovery)
    guard let last = links.last else { return }
    mtu = last.mtu
    connectionHandle = last.handle
    receiveBufferByteCount = last.receiveBufferByteCount
    disconnectReason = last.disconnectReason
  }
}
