import BLEHost
import BLEWire
import JSONText
package import SensorSessions

/// Effects of lost links: the members `links`, `firstSampleAtNs`, `lastSampleAtNs`, `timeToFirstSampleMs`,
/// `attRequests`, `medianRecoveryMs`, `unsubscribedValues` and `gaps` of `session.json`.
extension SessionReport {
  func encodeGaps(_ line: inout JSONLine) {
    line.member("links", linkCount)
    if let time = firstSampleAt { line.member("firstSampleAtNs", time) }
    if let time = lastSampleAt { line.member("lastSampleAtNs", time) }
    if let timeToFirstSample { line.member("timeToFirstSampleMs", Self.milliseconds(timeToFirstSample)) }
    if let median = medianRecoveryNanoseconds {
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
    line.member("gaps", array: { line in for gap in gaps { line.object { encode(gap, &$0) } } })
  }

  private func encode(_ gap: SessionGap, _ line: inout JSONLine) {
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
    if let recovery = recoveryNanoseconds(gap) { line.member("recoveryMs", Self.milliseconds(recovery)) }
    if let length = lengthNanoseconds(gap) { line.member("lengthMs", Self.milliseconds(length)) }
  }

  /// Converts nanoseconds to milliseconds, rounded to the microsecond.
  static func milliseconds(_ nanoseconds: Int64) -> Double {
    (Double(nanoseconds) / 1000).rounded() / 1000
  }
}

/// Lengths of gaps, in nanoseconds, without the steps of a wall clock that was set meanwhile.
extension SessionReport {
  /// Time from the last sample before a gap to the first one after it; `nil` if either is missing.
  package func lengthNanoseconds(_ gap: SessionGap) -> Int64? {
    guard let start = gap.lastSampleAt, let end = gap.firstSampleAt else { return nil }
    return elapsed(from: start, to: end)
  }

  /// Time from a loss to the first new sample; `nil` also if samples have the timestamps of a log.
  func recoveryNanoseconds(_ gap: SessionGap) -> Int64? {
    gap.firstSampleAt.map { elapsed(from: gap.lostAt, to: $0) }.flatMap { $0 < 0 ? nil : $0 }
  }

  /// Median time from a loss to the first new sample; `nil` if no gap has ended.
  package var medianRecoveryNanoseconds: Int64? {
    let sorted = gaps.compactMap(recoveryNanoseconds).sorted()
    return sorted.isEmpty ? nil : sorted[sorted.count / 2]
  }

  /// Time that elapsed between two wall-clock times, without the steps of the clock between them. `end` is
  /// later than `start`.
  ///
  /// A clock that was set back shows the same times twice. `start` is taken as the first occurrence of its
  /// time, and `end` as the first occurrence that is not before `start`.
  private func elapsed(from start: ReceiveTime, to end: ReceiveTime) -> Int64 {
    // Times between the steps of the clock, and the clock's offset from its setting at the start.
    var settings: [(times: ClosedRange<Int64>, offset: Int64)] = []
    var (first, offset) = (min(startedAt, start).nanoseconds, 0 as Int64)
    for step in clockSteps where step.isElapsedKnown {
      let last = step.seenAt.nanoseconds &- step.span.nanoseconds
      settings.append((first...max(first, last), offset))
      offset &+= step.span.nanoseconds
      first = step.seenAt.nanoseconds
    }
    settings.append((first...Int64.max, offset))
    let before = settings.firstIndex { $0.times.contains(start.nanoseconds) } ?? 0
    let after =
      settings.indices[before...].first {
        settings[$0].times.contains(end.nanoseconds)
          && ($0 > before || end >= start)
      } ?? settings.count - 1
    return (end - start).nanoseconds &- (settings[after].offset &- settings[before].offset)
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
  /// Copies the properties of the links from a session that has ended.
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
    // The same parameters are requested on each link, so repeated refusals are dropped.
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
