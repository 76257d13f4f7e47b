import BLEWire

/// Statistics of the updates of one attribute during a connection.
struct AttributeStatistics {
  let handle: AttributeHandle
  let opcode: ATTOpcode
  let direction: HCIDirection
  private var count = 0
  private var octets = 0
  private(set) var intervals = LogLinearHistogram()
  private var jitter = LogLinearHistogram()
  private var lastTime: ReceiveTime?
  private var lastInterval: Int64?
  /// The longest intervals, unsorted. At the end, the median determines which intervals are gaps.
  private var longest: [AttributeReport.Gap] = []
  private var shortestOfLongest = Int64.max

  init(handle: AttributeHandle, opcode: ATTOpcode, direction: HCIDirection) {
    self.handle = handle
    self.opcode = opcode
    self.direction = direction
  }

  /// Counts an update.
  ///
  /// - Parameter byteCount: size of the value in bytes.
  mutating func add(byteCount: Int, at time: ReceiveTime) {
    count += 1
    octets += byteCount
    defer { lastTime = time }
    guard let lastTime else { return }
    guard time >= lastTime else {
      // The clock was set back, so the time between these updates is not an interval.
      lastInterval = nil
      return
    }
    let interval = nanoseconds(from: lastTime, to: time)
    intervals.add(interval)
    if let lastInterval { jitter.add(abs(interval - lastInterval)) }
    lastInterval = interval
    keep(AttributeReport.Gap(time: lastTime, duration: interval))
  }

  private mutating func keep(_ gap: AttributeReport.Gap) {
    if longest.count < AttributeReport.maximumGaps {
      longest.append(gap)
      shortestOfLongest = min(shortestOfLongest, gap.duration)
      return
    }
    guard gap.duration > shortestOfLongest,
      let index = longest.indices.first(where: { longest[$0].duration == shortestOfLongest })
    else { return }
    longest[index] = gap
    shortestOfLongest = longest.reduce(Int64.max) { min($0, $1.duration) }
  }

  var report: AttributeReport {
    let summary = DurationSummary(intervals)
    let limit = summary.map { max(Double($0.p50), $0.mean) * AttributeReport.gapFactor } ?? 0
    let gaps = longest.filter { Double($0.duration) > limit }.sorted { $0.duration > $1.duration }
    let isAllListed = gaps.count < AttributeReport.maximumGaps
    return AttributeReport(
      handle: handle, opcode: opcode, direction: direction, count: count, octets: octets, intervals: summary,
      intervalHistogram: intervals, jitter: DurationSummary(jitter),
      gapCount: isAllListed ? gaps.count : max(gaps.count, intervals.count(above: Self.whole(limit))),
      gaps: gaps)
  }

  private static func whole(_ nanoseconds: Double) -> Int64 { Int64(min(nanoseconds, 9e18)) }
}

/// Requests with one opcode from one side during a connection.
struct RequestStatistics {
  let opcode: ATTOpcode
  let direction: HCIDirection
  var count = 0
  var errors = 0
  var unanswered = 0
  var latency = LogLinearHistogram()

  init(opcode: ATTOpcode, direction: HCIDirection) {
    self.opcode = opcode
    self.direction = direction
  }

  var report: RequestReport {
    RequestReport(
      opcode: opcode, direction: direction, count: count, errors: errors, unanswered: unanswered,
      latency: DurationSummary(latency), latencyHistogram: latency)
  }
}
