/// Aligns the beats of a sensor that sends only intervals with the beat times of another sensor.
///
/// The sum of the intervals follows the sensor's own clock. Its start is known only roughly, and a missing or
/// doubled interval shifts all later beats. Each block of beats is therefore located separately. Unless the
/// rhythm is perfectly regular, the pattern of a block fits the other sensor's beats at only one lag.
/// Neighbouring blocks with the same lag form a run. One slope, the relative rate of the two clocks, is
/// fitted to all runs.
public struct AnchoredBeats: Sendable {
  /// Expected scatter, in seconds, of the difference between the times at which two sensors detect the same
  /// beat.
  public enum Width: Double, Sendable {
    /// Both sensors measure the heart's electrical activity.
    case electric = 0.012
    /// One sensor measures the pulse in the skin.
    case light = 0.03
  }

  /// Number of beats in a block.
  private static let blockBeats = 16
  private static let leastInBlock = 8
  /// Maximum difference between a tested lag and the expected lag, in seconds.
  private static let reach = 1.6
  /// Minimum difference between two lags that count as different, in seconds.
  private static let another = 0.15
  /// Minimum score of a block.
  private static let leastScore = 0.6
  /// If another lag reaches this share of the best score, the block is ambiguous.
  private static let rival = 0.85
  /// Maximum difference between the lags of neighbouring blocks in a run, as a multiple of the width.
  private static let step = 2.5
  private static let leastBlocks = 3
  /// Error common to both ends of a run, in seconds: intervals are rounded to 1/1024 s.
  private static let grain = 0.000_4
  static let leastShare = 0.5

  /// Time of each beat on the other sensor's clock, in seconds; `nil` if unknown.
  public private(set) var times: [[Double?]]
  /// Relative rate of the other sensor's clock minus 1: seconds on that clock per second of the first
  /// sensor's clock, minus 1.
  public private(set) var slope = 0.0
  /// Half the width of the slope's 95 % interval; `nil` if there are too few blocks.
  public private(set) var slopeUncertainty: Double?
  /// Half the width of the lag's 95 % interval, in seconds.
  public private(set) var uncertainty: Double
  /// Root mean square residual of the blocks used, in seconds.
  public private(set) var residual: Double
  public private(set) var blocks: Int
  /// Share of the beats that the other sensor also measured.
  public private(set) var share: Double

  private struct Block {
    var stretch: Int
    var beats: Range<Int>
    var lag: Double
    /// Index and lag of each of the block's beats.
    var lags: [(beat: Int, lag: Double)]
    var run = 0
    /// Mean time of the beats used, in seconds.
    var place = 0.0
    /// Mean lag of the beats used, in seconds.
    var mean = 0.0
  }

  /// Aligns the beats.
  ///
  /// - Parameters:
  ///   - places: for each stretch of intervals without a known gap, the ascending beat times on the first
  ///     sensor's clock, in seconds.
  ///   - expected: for each stretch, its approximate lag: the offset from its times to the other sensor's
  ///     times, accurate to a second.
  ///   - others: ascending beat times of the other sensor, in seconds.
  ///   - width: expected scatter of aligned beats.
  public init(
    _ places: [[Double]], expected: [Double], others: [Double], _ width: Width
  ) throws(SharedEvidence.Refusal) {
    var blocks: [Block] = []
    var (tried, ambiguous, apart) = (0, 0, 0.0)
    for (number, stretch) in places.enumerated() {
      var start = 0
      while stretch.count - start >= Self.leastInBlock {
        let rest = stretch.count - start
        let beats =
          start..<start
          + (rest >= 2 * Self.blockBeats
            ? Self.blockBeats : min(rest, rest > Self.blockBeats ? (rest + 1) / 2 : rest))
        start = beats.upperBound
        guard Self.overlaps(stretch[beats], expected[number], others) else { continue }
        tried += 1
        switch Self.place(stretch, beats, expected[number], others, width) {
        case .found(let lag, let lags):
          blocks.append(Block(stretch: number, beats: beats, lag: lag, lags: lags))
        case .ambiguous(let seconds): (ambiguous, apart) = (ambiguous + 1, seconds)
        case .none: break
        }
      }
    }
    guard tried > 0 else { throw .nothing(.beats) }
    if 2 * blocks.count <= tried {
      throw ambiguous > blocks.count ? .ambiguous(.beats, seconds: apart) : .unlike(.beats)
    }
    guard blocks.count >= Self.leastBlocks else { throw .tooFew(.beats) }
    times = places.map { [Double?](repeating: nil, count: $0.count) }
    self.blocks = blocks.count
    (residual, uncertainty, share) = (0, 0, 0)
    Self.number(&blocks, width)
    fit(&blocks, places, width)
    let matched = blocks.reduce(0) { $0 + $1.lags.count }
    share = Double(matched) / Double(max(1, blocks.reduce(0) { $0 + $1.beats.count }))
    guard share >= Self.leastShare else { throw .unlike(.beats) }
  }

  private static func overlaps(_ beats: ArraySlice<Double>, _ expected: Double, _ others: [Double]) -> Bool {
    guard let first = others.first, let last = others.last, let begin = beats.first, let end = beats.last
    else {
      return false
    }
    return begin + expected > first + reach && end + expected < last - reach
  }

  // MARK: One block

  private enum Placing {
    case found(Double, [(beat: Int, lag: Double)])
    case ambiguous(Double)
    case none
  }

  /// Finds the lag at which a block's pattern fits the other sensor's beats.
  private static func place(
    _ places: [Double], _ beats: Range<Int>, _ expected: Double, _ others: [Double], _ width: Width
  ) -> Placing {
    var candidates: [(lag: Double, score: Double)] = []
    // The other sensor may have missed a beat, so several beats of the block are tried as anchors.
    for beat in [beats.lowerBound, (beats.lowerBound + beats.upperBound) / 2, beats.upperBound - 1] {
      let time = places[beat] + expected
      var other = lowerBound(others, time - reach)
      while other < others.count, others[other] <= time + reach {
        let lag = refined(places, beats, others[other] - places[beat], others, width)
        candidates.append((lag, score(places, beats, lag, others, width)))
        other += 1
      }
    }
    guard let best = candidates.max(by: { $0.score < $1.score }), best.score >= leastScore else {
      return .none
    }
    let rivals = candidates.filter { abs($0.lag - best.lag) > another && $0.score > rival * best.score }
    if let other = rivals.max(by: { $0.score < $1.score }) { return .ambiguous(abs(other.lag - best.lag)) }
    let lags = beats.compactMap { beat -> (beat: Int, lag: Double)? in
      let lag = nearest(others, places[beat] + best.lag) - places[beat]
      return abs(lag - best.lag) <= 2 * width.rawValue ? (beat, lag) : nil
    }
    guard lags.count >= leastInBlock / 2, 2 * lags.count > beats.count else { return .none }
    return .found(median(lags.map(\.lag)), lags)
  }

  private static func refined(
    _ places: [Double], _ beats: Range<Int>, _ lag: Double, _ others: [Double], _ width: Width
  ) -> Double {
    var lag = lag
    for _ in 0..<2 {
      let near = beats.map { nearest(others, places[$0] + lag) - places[$0] }.filter {
        abs($0 - lag) < 4 * width.rawValue
      }
      if near.isEmpty { return lag }
      lag = median(near)
    }
    return lag
  }

  private static func score(
    _ places: [Double], _ beats: Range<Int>, _ lag: Double, _ others: [Double], _ width: Width
  ) -> Double {
    var sum = 0.0
    for beat in beats {
      let distance = (nearest(others, places[beat] + lag) - places[beat] - lag) / width.rawValue
      sum += 1 / (1 + distance * distance * distance * distance)
    }
    return sum / Double(beats.count)
  }

  // MARK: All blocks

  /// Groups neighbouring blocks of a stretch with similar lags into runs.
  private static func number(_ blocks: inout [Block], _ width: Width) {
    for index in blocks.indices.dropFirst() {
      let (before, this) = (blocks[index - 1], blocks[index])
      let isSame = before.stretch == this.stretch && abs(before.lag - this.lag) <= step * width.rawValue
      blocks[index].run = before.run + (isSame ? 0 : 1)
    }
  }

  /// Fits one slope to all runs, each with its own lag.
  private mutating func fit(_ blocks: inout [Block], _ places: [[Double]], _ width: Width) {
    for _ in 0..<3 {
      for index in blocks.indices {
        let block = blocks[index]
        let level = median(block.lags.map { $0.lag - slope * places[block.stretch][$0.beat] })
        let off = block.lags.map { abs($0.lag - slope * places[block.stretch][$0.beat] - level) }
        let limit = max(0.004, 3.5 * 1.4826 * median(off))
        blocks[index].lags = zip(block.lags, off).filter { $1 <= limit }.map(\.0)
        let count = Double(blocks[index].lags.count)
        blocks[index].place = blocks[index].lags.reduce(0) { $0 + places[block.stretch][$1.beat] } / count
        blocks[index].mean = blocks[index].lags.reduce(0) { $0 + $1.lag } / count
      }
      slope = Self.slope(blocks)
    }
    let runs = Dictionary(grouping: blocks.indices) { blocks[$0].run }
    var (spread, squares, products) = (0.0, 0.0, 0.0)
    for run in runs.values {
      let (place, lag) = Self.middle(run.map { blocks[$0] })
      var last: Double?
      for index in run.sorted() {
        let off = blocks[index].mean - lag - slope * (blocks[index].place - place)
        squares += off * off
        spread += (blocks[index].place - place) * (blocks[index].place - place)
        if let last { products += last * off }
        last = off
      }
      for index in run {
        for (beat, _) in blocks[index].lags {
          let position = places[blocks[index].stretch][beat]
          times[blocks[index].stretch][beat] = position + lag + slope * (position - place)
        }
      }
    }
    let degrees = blocks.count - runs.count - 1
    residual = (squares / Double(blocks.count)).squareRoot()
    // Successive block means are correlated if the offset between the clocks varies.
    let correlation = squares > 0 ? min(0.8, max(0, products / squares + 1 / Double(blocks.count))) : 0
    let variance =
      max(squares / Double(max(1, degrees)), LagLine.grain * LagLine.grain) * (1 + correlation)
      / (1 - correlation)
    let quantile = LagLine.quantile(max(1, degrees))
    uncertainty = quantile * (variance / Double(blocks.count)).squareRoot() + variance.squareRoot()
    // Width of the uniform distribution that has the same variance as the positions.
    let span = (12 * spread / Double(blocks.count)).squareRoot()
    slopeUncertainty =
      degrees >= 2 && span > 0 ? quantile * (variance / spread).squareRoot() + Self.grain / span : nil
  }

  private static func middle(_ blocks: [Block]) -> (place: Double, lag: Double) {
    let count = Double(blocks.count)
    return (blocks.reduce(0) { $0 + $1.place } / count, blocks.reduce(0) { $0 + $1.mean } / count)
  }

  private static func slope(_ blocks: [Block]) -> Double {
    var (spread, product) = (0.0, 0.0)
    for run in Dictionary(grouping: blocks, by: \.run).values {
      let (place, lag) = middle(run)
      for block in run {
        spread += (block.place - place) * (block.place - place)
        product += (block.place - place) * (block.mean - lag)
      }
    }
    return spread > 0 ? product / spread : 0
  }

  // MARK: Beats

  private static func nearest(_ beats: [Double], _ time: Double) -> Double {
    let place = lowerBound(beats, time)
    guard place < beats.count else { return beats.last ?? .infinity }
    guard place > 0 else { return beats[0] }
    return beats[place] - time < time - beats[place - 1] ? beats[place] : beats[place - 1]
  }

  /// Returns the index of the first beat at or after a time.
  private static func lowerBound(_ beats: [Double], _ time: Double) -> Int {
    var (low, high) = (0, beats.count)
    while low < high {
      let middle = (low + high) / 2
      if beats[middle] < time { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
