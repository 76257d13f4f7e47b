import BLELinux
import BLEWire

/// Writes the signals of a capture as continuous EDF+ or BDF+. A missing sample is stored as the signal's
/// lowest integer, which no value uses, and is marked by an annotation. Tables with different rates have
/// different numbers of samples per data record.
enum EDFConversion {
  /// Permitted duration of a data record in seconds, if all tables have one rate.
  private static let recordSeconds = 0.5...2.0
  /// Permitted duration of a data record in seconds, if tables have different rates.
  private static let sharedRecordSeconds = 0.5...9.9
  /// Maximum relative error of the rates in a file with several rates: 7 ms per hour. The shortest record
  /// with this accuracy is chosen. If the ratio of two rates is close but not equal to a ratio of small
  /// integers, such a record would be too long. The error is then larger, and the report contains both the
  /// rate in the file and the sensor's rate.
  private static let sharedError = 2e-6
  /// Times that the file can store: 1985-01-01 … 2084-12-31, in nanoseconds since the Unix epoch.
  private static let years: Range<Int64> = 473_385_600_000_000_000..<3_629_059_200_000_000_000
  /// Time unit of the file: 10 µs, in nanoseconds.
  private static let unitNanoseconds = 10_000.0

  /// Table that is being written to the file.
  fileprivate struct Track {
    let lane: SignalLanes.Lane
    let channels: [SignalChannel]
    let samplesPerRecord: Int
    var places: SignalPlaces
    /// Number of positions to write before the first sample.
    var lead: Int
  }

  static func run(
    _ capture: RecordedCapture, to path: String, _ kind: EDFFile.Kind, _ report: inout ConversionReport,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) {
    let lanes = try SignalLanes(capture, progress: progress)
    try lanes.requireNear()
    guard years.contains(lanes.start) else {
      throw .unsuitable(
        "the first sample is from \(UTCText(lanes.start).wfdb), but EDF supports only 1985 … 2084; use wfdb")
    }
    let channels = lanes.lanes.map { SignalChannel.all($0.table, $0.scan, bits: kind == .edf ? 16 : 24) }
    let periods = lanes.lanes.map(\.scan.period)
    let (samples, duration) = periods.count == 1 ? record(period: periods[0]) : record(periods)
    let recordCount = zip(lanes.lanes, samples).map { ($0.length + $1 - 1) / $1 }.max() ?? 0
    var layout = EDFFile.Layout(
      startNanoseconds: lanes.start, recordDuration: duration, recordCount: recordCount, noteCount: 0,
      remark: "ringtap; UTC; lowest digital = no value")
    let notes = lanes.notes(
      capture, Set(channels.joined().map(\.signal.group)), limit: layout.noteLimit)
    layout.noteCount = notes.count
    let heads = zip(lanes.lanes, zip(channels, samples)).flatMap { lane, track in
      track.0.map { $0.head(lane.table.transducer, samplesPerRecord: track.1) }
    }
    var file: EDFFile
    do throws(SystemError) { file = try EDFFile(creating: path, kind, heads, layout) } catch {
      throw .output(error)
    }
    do throws(SystemError) {
      for note in notes {
        try file.note(note.text, onsetNanoseconds: note.onset, durationNanoseconds: note.duration)
      }
      var tracks: [Track] = []
      for (place, lane) in lanes.lanes.enumerated() {
        tracks.append(
          Track(
            lane: lane, channels: channels[place], samplesPerRecord: samples[place],
            places: try SignalPlaces(capture, lane.table, period: lane.scan.period), lead: lane.lead))
      }
      try write(&tracks, recordCount, &file, progress)
    } catch {
      // Remove the incomplete file, which readers would reject.
      try? Files.remove(path)
      throw .output(error)
    }
    let seconds = Double(duration) * unitNanoseconds / 1e9
    for (place, lane) in lanes.lanes.enumerated() {
      report.take(lane.table, lane.scan, channels[place], rate: Double(samples[place]) / seconds)
    }
    report.start = lanes.start
    report.notes = notes.count
    report.leftOut += lanes.leftOut
    report.recordSeconds = seconds
    report.missing = "lowest digital value"
  }

  /// Returns the number of samples and the duration of a data record whose quotient is nearest to the rate.
  private static func record(period: Double) -> (samples: [Int], duration: Int) {
    let fewest = max(1, Int((recordSeconds.lowerBound * 1e9 / period).rounded(.up)))
    let most = max(fewest, Int(recordSeconds.upperBound * 1e9 / period))
    var best = (samples: fewest, duration: 0, error: Double.infinity)
    for samples in fewest...min(most, fewest + 4096) {
      let exact = Double(samples) * period / unitNanoseconds
      let error = abs(exact.rounded() / exact - 1)
      if error < best.error { best = (samples, Int(exact.rounded()), error) }
    }
    return ([best.samples], best.duration)
  }

  /// Returns the data record for several rates: the shortest duration in which each table has nearly a whole
  /// number of samples.
  private static func record(_ periods: [Double]) -> (samples: [Int], duration: Int) {
    let first = Int(sharedRecordSeconds.lowerBound * 1e9 / unitNanoseconds)
    let last = Int(sharedRecordSeconds.upperBound * 1e9 / unitNanoseconds)
    var best = (duration: first, error: Double.infinity)
    for duration in first...last {
      var error = 0.0
      for period in periods where error < best.error {
        let exact = Double(duration) * unitNanoseconds / period
        error = max(error, abs(max(1, exact.rounded()) / exact - 1))
      }
      if error < best.error { best = (duration, error) }
      if best.error <= sharedError { break }
    }
    let samples = periods.map { max(1, Int((Double(best.duration) * unitNanoseconds / $0).rounded())) }
    return (samples, best.duration)
  }

  private static func write(
    _ tracks: inout [Track], _ recordCount: Int, _ file: inout EDFFile,
    _ progress: (ConversionProgress) -> Void
  ) throws(SystemError) {
    var record: [CInt] = []
    var total = 0
    for _ in 0..<recordCount {
      record.removeAll(keepingCapacity: true)
      for place in tracks.indices {
        tracks[place].append(to: &record)
        total += tracks[place].samplesPerRecord
        if total / 65_536 != (total - tracks[place].samplesPerRecord) / 65_536 {
          progress(ConversionProgress("writing", total))
        }
      }
      try file.append(&record)
    }
    try file.finish()
  }
}

extension EDFConversion.Track {
  /// Appends the samples of one record, signal after signal.
  fileprivate mutating func append(to record: inout [CInt]) {
    let base = record.count
    for channel in channels {
      record += repeatElement(CInt(channel.scale.missing), count: samplesPerRecord)
    }
    for place in 0..<samplesPerRecord {
      if lead > 0 {
        lead -= 1
        continue
      }
      guard places.next() else { return }
      for (index, channel) in channels.enumerated() {
        let value = places.values[channel.index]
        if value.isNaN { continue }
        record[base + index * samplesPerRecord + place] = CInt(channel.scale.digital(value))
      }
    }
  }
}

/// Signal with values, and its scale in the file.
struct SignalChannel {
  let signal: SignalTable.Signal
  /// Index of the signal in the table.
  let index: Int
  let scale: SignalScale
  let values: Int

  static func all(_ table: SignalTable, _ scan: SignalScan, bits: Int) -> [SignalChannel] {
    table.signals.indices.compactMap { index in
      let found = scan.signals[index]
      guard found.values > 0 else { return nil }
      let grain = table.signals[index].grain
      return SignalChannel(
        signal: table.signals[index], index: index,
        scale: grain.scale(bits: bits, smallest: found.smallest, largest: found.largest),
        values: found.values)
    }
  }

  func head(_ transducer: String, samplesPerRecord: Int) -> EDFFile.Signal {
    EDFFile.Signal(
      label: signal.label, unit: signal.unit, transducer: transducer, digital: scale.digital,
      physical: scale.physical, samplesPerRecord: samplesPerRecord)
  }
}

/// Mapping from a signal's values to integers of a given number of bits, for EDF+, BDF+ and WFDB files.
struct SignalScale: Hashable {
  /// Size of one step, in the signal's unit.
  var step: Double
  /// Number of steps that is subtracted from a value before it is stored.
  var offset = 0
  /// Range of stored integers. The lowest integer marks a missing sample.
  var digital: ClosedRange<Int>
  /// Whether all values of the signal are stored exactly as they were recorded.
  var isExact: Bool

  var physical: ClosedRange<Double> {
    Double(digital.lowerBound + offset) * step...Double(digital.upperBound + offset) * step
  }

  /// Integer that represents a missing sample.
  var missing: Int { digital.lowerBound }

  /// Returns the integer for a value, rounded and limited to the range.
  func digital(_ value: Double) -> Int {
    let steps = (value / step).rounded() - Double(offset)
    return Int(max(Double(digital.lowerBound + 1), min(steps, Double(digital.upperBound))))
  }
}

/// Precision of a recorded signal.
enum SignalGrain: Hashable {
  /// Integers.
  case integers
  /// Multiples of 1/512, as in a ring's acceleration.
  case acceleration
  /// Decimal numbers with this number of digits after the point.
  case decimals(Int)
}

extension SignalGrain {
  /// Returns a scale for integers of `bits` bits that covers the values from `smallest` to `largest`. The
  /// lowest integer is reserved for missing samples.
  ///
  /// An EDF header has 8 characters for each end of the physical range. The ends are chosen so that they fit,
  /// and readers compute exact values from them. If there are too few bits for the recorded steps, the steps
  /// are enlarged by a power of ten.
  func scale(bits: Int, smallest: Double, largest: Double) -> SignalScale {
    let half = 1 << (bits - 1)
    let (unit, grid) = unit
    var coarser = 0
    while true {
      let step = unit * power(coarser)
      let low = bounded(down((smallest / step).rounded(), to: grid) - grid)
      let high = max(bounded(up((largest / step).rounded(), to: grid)), low + 1)
      if high - low < Double(2 * half) || coarser == 12 {
        let (first, last) = (Int(low), Int(min(high, low + Double(2 * half - 1))))
        let fits = first >= -half && last < half
        let offset = fits ? 0 : first + half
        return SignalScale(
          step: step, offset: offset, digital: first - offset...last - offset, isExact: coarser == 0)
      }
      coarser += 1
    }
  }

  /// Recorded step, and the smallest multiple of it that has a short text.
  private var unit: (step: Double, grid: Double) {
    switch self {
    case .integers: (1, 1)
    // 64 steps are 0.125 g.
    case .acceleration: (1.0 / 512, 64)
    case .decimals(let decimals): (power(-decimals), power(decimals))
    }
  }

  /// Limits numbers from a damaged table, so that they are exact integers.
  private func bounded(_ number: Double) -> Double { min(max(number, -0x1p52), 0x1p52) }

  private func down(_ number: Double, to grid: Double) -> Double { (number / grid).rounded(.down) * grid }
  private func up(_ number: Double, to grid: Double) -> Double { (number / grid).rounded(.up) * grid }

  private func power(_ exponent: Int) -> Double {
    var number = 1.0
    for _ in 0..<abs(exponent) { number *= 10 }
    return exponent < 0 ? 1 / number : number
  }
}
