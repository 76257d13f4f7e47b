import BLELinux

/// Writes the signals of a capture as EDF+ or BDF+, continuous: what did not come has the signal's lowest integer, which no
/// value has, and a note.
enum EDFConversion {
  /// Seconds of a data record.
  private static let recordSeconds = 0.5...2.0
  /// 1985-01-01 … 2084-12-31, in nanoseconds since the Unix epoch.
  private static let years: Range<Int64> = 473_385_600_000_000_000..<3_629_059_200_000_000_000
  /// The file's own unit of time is 10 µs.
  private static let unitNanoseconds = 10_000.0

  static func run(
    _ capture: RecordedCapture, to path: String, _ kind: EDFFile.Kind, _ report: inout ConversionReport,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) {
    let table = try SignalTable(of: capture)
    let scan = try SignalScan(capture, table) { progress(ConversionProgress("reading", $0)) }
    guard years.contains(scan.start) else {
      throw .unsuitable(
        "the first sample is of \(UTCText(scan.start).wfdb), and EDF knows 1985 … 2084; use wfdb")
    }
    let channels = SignalChannel.all(table, scan, bits: kind == .edf ? 16 : 24)
    let (samples, duration) = Self.record(period: scan.period)
    var layout = EDFFile.Layout(
      startNanoseconds: scan.start, samplesPerRecord: samples, recordDuration: duration,
      recordCount: (scan.length + samples - 1) / samples, noteCount: 0,
      remark: "ringtap; UTC; lowest digital = no value")
    let notes = scan.notes(capture, Set(channels.map(\.signal.group)), limit: layout.noteLimit)
    layout.noteCount = notes.count
    var file: EDFFile
    do throws(SystemError) {
      file = try EDFFile(creating: path, kind, channels.map { $0.head(table.transducer) }, layout)
    } catch { throw .output(error) }
    do throws(SystemError) {
      for note in notes {
        try file.note(note.text, onsetNanoseconds: note.onset, durationNanoseconds: note.duration)
      }
      try write(capture, table, scan, channels, samples, &file, progress)
    } catch {
      // Without its end no reader takes it.
      try? Files.remove(path)
      throw .output(error)
    }
    report.take(table, scan, channels, notes: notes.count)
    report.recordSeconds = Double(duration) * unitNanoseconds / 1e9
    report.rate = Double(samples) / (Double(duration) * unitNanoseconds / 1e9)
    report.missing = "lowest digital value"
  }

  /// Samples of a data record and its duration whose quotient comes nearest to the rate.
  private static func record(period: Double) -> (samples: Int, duration: Int) {
    let fewest = max(1, Int((recordSeconds.lowerBound * 1e9 / period).rounded(.up)))
    let most = max(fewest, Int(recordSeconds.upperBound * 1e9 / period))
    var best = (samples: fewest, duration: 0, error: Double.infinity)
    for samples in fewest...min(most, fewest + 4096) {
      let exact = Double(samples) * period / unitNanoseconds
      let error = abs(exact.rounded() / exact - 1)
      if error < best.error { best = (samples, Int(exact.rounded()), error) }
    }
    return (best.samples, best.duration)
  }

  private static func write(
    _ capture: RecordedCapture, _ table: SignalTable, _ scan: SignalScan, _ channels: [SignalChannel],
    _ samplesPerRecord: Int, _ file: inout EDFFile, _ progress: (ConversionProgress) -> Void
  ) throws(SystemError) {
    var record = [CInt](repeating: 0, count: samplesPerRecord * channels.count)
    var (place, total, failure) = (0, 0, SystemError?.none)
    do throws(ConversionError) {
      try scan.forEachPlace(capture, table) { values throws(SystemError) in
        for (index, channel) in channels.enumerated() {
          let value = values[channel.index]
          let scale = channel.scale
          record[index * samplesPerRecord + place] = CInt(value.isNaN ? scale.missing : scale.digital(value))
        }
        place += 1
        total += 1
        if total.isMultiple(of: 65_536) { progress(ConversionProgress("writing", total)) }
        guard place == samplesPerRecord else { return }
        place = 0
        try file.append(&record)
      }
    } catch { if case .output(let error) = error { failure = error } }
    if let failure { throw failure }
    if place > 0 {
      for index in channels.indices {
        let missing = CInt(channels[index].scale.missing)
        for rest in place..<samplesPerRecord { record[index * samplesPerRecord + rest] = missing }
      }
      try file.append(&record)
    }
    try file.finish()
  }
}

/// A signal that has values, with what becomes of them.
struct SignalChannel {
  let signal: SignalTable.Signal
  /// Its place among the table's signals.
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

  func head(_ transducer: String) -> EDFFile.Signal {
    EDFFile.Signal(
      label: signal.label, unit: signal.unit, transducer: transducer, digital: scale.digital,
      physical: scale.physical)
  }
}
