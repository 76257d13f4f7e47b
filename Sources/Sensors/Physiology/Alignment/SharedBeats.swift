/// Finds the lag between the beats that two sensors measure on the same heart. Beat intervals vary, so the
/// beats coincide at only one lag.
struct SharedBeats {
  /// Number of the first sensor's beats that are compared at each lag.
  private static let tried = 300
  /// Step between tested lags, in seconds.
  private static let step = 0.01
  /// Distance between two beats at which the score is one half, in seconds.
  private static let width = 0.02
  /// Minimum number of beats that both sensors measured.
  private static let leastBeats = 20
  /// Minimum share of beats that both sensors measured.
  private static let leastShare = 0.5
  /// Minimum difference between two lags that count as different, in seconds.
  private static let another = 0.15
  /// If another lag exceeds this share of the best score, the result is ambiguous.
  private static let rival = 0.75
  /// Maximum distance of a beat's lag from the line, in seconds.
  private static let nearby = 0.06
  /// Duration of the blocks whose median lag is computed, in seconds.
  private static let blockSeconds = 20.0
  private static let leastInBlock = 5

  private let first: [Double]
  private let second: [Double]

  init(_ first: [Double], _ second: [Double]) { (self.first, self.second) = (first, second) }

  /// Returns the lag at which the beats coincide, accurate to a few hundredths of a second.
  func coarseLag(within search: Double) throws(SharedEvidence.Refusal) -> Double {
    let some = shared(within: search)
    guard some.count >= Self.leastBeats, second.count >= Self.leastBeats else { throw .nothing(.beats) }
    return try coarseLag(some, within: search)
  }

  func find(within search: Double) throws(SharedEvidence.Refusal) -> SharedEvidence {
    let some = shared(within: search)
    guard some.count >= Self.leastBeats, second.count >= Self.leastBeats else { throw .nothing(.beats) }
    let coarse = try coarseLag(some, within: search)
    var points: [LagLine.Point] = []
    var (pairs, tried) = (0, 0)
    func take(_ block: ArraySlice<Double>, near lag: Double) -> Double? {
      let lags = block.compactMap { beat -> Double? in
        guard let near = nearest(to: beat + lag), abs(near - beat - lag) <= Self.nearby else { return nil }
        return near - beat
      }
      tried += block.count
      pairs += lags.count
      guard lags.count >= Self.leastInBlock, 2 * lags.count > block.count, let begin = block.first,
        let end = block.last
      else { return nil }
      let lag = median(lags)
      points.append(LagLine.Point(seconds: (begin + end) / 2, lag: lag, weight: Double(lags.count)))
      return lag
    }
    let blocks = blocks(within: search)
    let middle = some[some.startIndex + some.count / 2]
    var lag = coarse
    for block in blocks where block.last ?? 0 >= middle { lag = take(block, near: lag) ?? lag }
    lag = points.first?.lag ?? coarse
    for block in blocks.reversed() where block.last ?? 0 < middle { lag = take(block, near: lag) ?? lag }
    let share = Double(pairs) / Double(max(1, tried))
    guard share >= Self.leastShare else { throw .unlike(.beats) }
    guard let line = LagLine(points) else { throw .tooFew(.beats) }
    let seconds = points.map(\.seconds)
    return SharedEvidence(
      kind: .beats, line: line, likeness: share, range: (seconds.min() ?? 0)...(seconds.max() ?? 0))
  }

  /// Returns beats of the first sensor from the middle of the time that both sensors may cover.
  private func shared(within search: Double) -> ArraySlice<Double> {
    guard let begin = second.first, let end = second.last else { return [] }
    let both = first.filter { $0 > begin - search && $0 < end + search }
    let surplus = max(0, both.count - Self.tried)
    return both[(surplus / 2)..<(both.count - (surplus + 1) / 2)]
  }

  private func blocks(within search: Double) -> [ArraySlice<Double>] {
    guard let begin = second.first, let end = second.last else { return [] }
    var blocks: [ArraySlice<Double>] = []
    var start = first.startIndex
    for place in first.indices where first[place] > begin - search && first[place] < end + search {
      if first[start] <= begin - search { start = place }
      let isLast = place + 1 == first.count || first[place + 1] >= end + search
      if isLast || first[place + 1] - first[start] >= Self.blockSeconds {
        blocks.append(first[start...place])
        start = place + 1
      }
    }
    return blocks
  }

  private func coarseLag(
    _ some: ArraySlice<Double>, within search: Double
  ) throws(SharedEvidence.Refusal) -> Double {
    let reach = Int(search * SharedEvidence.beyond / Self.step)
    let scores = (-reach...reach).map { score(some, at: Double($0) * Self.step) }
    guard let best = scores.indices.max(by: { scores[$0] < scores[$1] }) else { throw .nothing(.beats) }
    guard scores[best] >= Self.leastShare / 2 else { throw .unlike(.beats) }
    let lag = Double(best - reach) * Self.step
    guard abs(lag) <= search else {
      let within = scores.indices.filter { Double(abs($0 - reach)) * Self.step <= search }
      if let other = within.max(by: { scores[$0] < scores[$1] }), scores[other] > Self.rival * scores[best] {
        throw .ambiguous(.beats, seconds: Double(abs(other - best)) * Self.step)
      }
      throw .beyond(.beats, seconds: abs(lag))
    }
    let apart = Int(Self.another / Self.step)
    let others = scores.indices.filter { abs($0 - best) > apart && scores[$0] > Self.rival * scores[best] }
    if let other = others.max(by: { scores[$0] < scores[$1] }) {
      throw .ambiguous(.beats, seconds: Double(abs(other - best)) * Self.step)
    }
    return lag
  }

  /// Returns a score for the coincidence of the beats at a lag: 0 … 1.
  private func score(_ some: ArraySlice<Double>, at lag: Double) -> Double {
    var sum = 0.0
    var place = lowerBound((some.first ?? 0) + lag)
    for beat in some {
      let time = beat + lag
      while place < second.count, second[place] < time { place += 1 }
      let after = place < second.count ? second[place] - time : .infinity
      let before = place > 0 ? time - second[place - 1] : .infinity
      let distance = min(after, before) / Self.width
      // Approximates a Gaussian without an exponential function.
      if distance < 4 { sum += 1 / (1 + distance * distance * distance * distance) }
    }
    return sum / Double(some.count)
  }

  private func nearest(to time: Double) -> Double? {
    let place = lowerBound(time)
    let after = place < second.count ? second[place] : nil
    let before = place > 0 ? second[place - 1] : nil
    guard let after, let before else { return after ?? before }
    return after - time < time - before ? after : before
  }

  /// Returns the index of the second sensor's first beat at or after a time.
  private func lowerBound(_ time: Double) -> Int {
    var (low, high) = (0, second.count)
    while low < high {
      let middle = (low + high) / 2
      if second[middle] < time { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
