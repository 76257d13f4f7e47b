import BLELinux
import BLEWire
import Recording

/// Writes the signals of a capture as a WFDB record for PhysioNet's tools: a text header and a sample file. A
/// missing sample has the value reserved by the format, which readers return as NaN. Each of several tables
/// becomes a record with its own rate and start, and `RECORDS` lists the records.
///
/// WFDB Applications Guide, header(5) and signal(5): formats 16, 24 and 32.
enum WFDBConversion {
  static func run(
    _ capture: RecordedCapture, to folder: String, _ report: inout ConversionReport,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) {
    let lanes = try SignalLanes(capture, progress: progress)
    let name = name(folder)
    var names: [String] = []
    for lane in lanes.lanes {
      let channels = format(lane.table, lane.scan)
      let record = lanes.lanes.count == 1 ? name : "\(name)_\(lane.table.table.name)"
      names.append(record)
      do throws(SystemError) {
        try write(capture, lane, channels.channels, bits: channels.bits, to: folder, record, progress)
      } catch { throw .output(error) }
      report.take(lane.table, lane.scan, channels.channels, rate: lane.scan.rate)
    }
    if names.count > 1 {
      do throws(SystemError) {
        try Files.write(
          Array(names.map { $0 + "\n" }.joined().utf8).span, to: folder + "/RECORDS", ifExists: .refuse)
      } catch { throw .output(error) }
    }
    report.leftOut += lanes.leftOut
    report.missing = "invalid sample"
  }

  /// Returns the smallest number of bits that represents all values exactly, and the scales. No scale maps a
  /// value to the integer reserved for missing samples.
  private static func format(
    _ table: SignalTable, _ scan: SignalScan
  ) -> (bits: Int, channels: [SignalChannel]) {
    for bits in [16, 24] {
      let channels = SignalChannel.all(table, scan, bits: bits)
      if channels.allSatisfy(\.scale.isExact) { return (bits, channels) }
    }
    return (32, SignalChannel.all(table, scan, bits: 32))
  }

  /// Returns the name of the record: the folder's name, with each character other than letters, digits,
  /// hyphens and underscores replaced.
  private static func name(_ folder: String) -> String {
    let last = folder.split(separator: "/").last ?? "record"
    let name = last.unicodeScalars.map { scalar in
      scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil)
        || scalar == "-" || scalar == "_" ? Character(scalar) : "_"
    }
    return String(name)
  }

  private struct Sums {
    var first: [Int]
    var checksum: [Int16]
  }

  private static func write(
    _ capture: RecordedCapture, _ lane: SignalLanes.Lane, _ channels: [SignalChannel], bits: Int,
    to folder: String, _ name: String, _ progress: (ConversionProgress) -> Void
  ) throws(SystemError) {
    try Files.createDirectory(folder)
    let sums = try samples(capture, lane, channels, bits: bits, to: folder + "/\(name).dat", progress)
    var header = try OutputFile(creating: folder + "/\(name).hea", ifExists: .fail)
    let text = head(name, lane.scan, channels, bits: bits, sums)
    try header.append { $0 += text.utf8 }
    try header.flush()
    try header.sync()
  }

  private static func samples(
    _ capture: RecordedCapture, _ lane: SignalLanes.Lane, _ channels: [SignalChannel], bits: Int,
    to path: String, _ progress: (ConversionProgress) -> Void
  ) throws(SystemError) -> Sums {
    var file = try OutputFile(creating: path, ifExists: .fail)
    var sums = Sums(first: [], checksum: channels.map { _ in 0 })
    let invalid = -(1 << (bits - 1))
    var total = 0
    var places = try SignalPlaces(capture, lane.table, period: lane.scan.period)
    while places.next() {
      try file.append { octets in
        for (index, channel) in channels.enumerated() {
          let value = places.values[channel.index]
          let sample = value.isNaN ? invalid : channel.scale.digital(value)
          if total == 0 { sums.first.append(sample) }
          sums.checksum[index] &+= Int16(truncatingIfNeeded: sample)
          for shift in stride(from: 0, to: bits, by: 8) {
            octets.append(UInt8(truncatingIfNeeded: sample >> shift))
          }
        }
      }
      total += 1
      if total.isMultiple(of: 65_536) { progress(ConversionProgress("writing", total)) }
    }
    try file.flush()
    try file.sync()
    return sums
  }

  private static func head(
    _ name: String, _ scan: SignalScan, _ channels: [SignalChannel], bits: Int, _ sums: Sums
  ) -> String {
    var lines = ["\(name) \(channels.count) \(scan.rate) \(scan.length) \(UTCText(scan.start).wfdb)"]
    for (index, channel) in channels.enumerated() {
      let scale = channel.scale
      // Steps per unit, and the integer that represents 0.
      lines.append(
        "\(name).dat \(bits) \(1 / scale.step)(\(-scale.offset))/\(channel.signal.unit) \(bits) 0 "
          + "\(sums.first[index]) \(sums.checksum[index]) 0 \(channel.signal.label)")
    }
    return (lines + ["# ringtap; times are UTC"]).joined(separator: "\n") + "\n"
  }
}
