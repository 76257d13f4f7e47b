import BLELinux
import Recording

/// A table with a steady rate, as signals.
struct SignalTable {
  struct Signal {
    /// As EDF has it: 16 ASCII characters.
    let label: String
    let unit: String
    let grain: SignalGrain
    /// Its column.
    let place: Int
    /// What arrives together with it.
    let group: String
  }

  let table: RecordedTable
  let signals: [Signal]
  /// What the sensor is, for the head of a file.
  let transducer: String
  private let clock: Clock

  /// The columns that tell when a row was measured.
  private enum Clock {
    /// Numbered ticks: fitted time, number and fit.
    case ticks
    /// Times of the sensor beside those of the frames.
    case device
  }

  /// The first of a capture's tables that has a steady rate: the ticks of a ring, or a raw stream of a Polar sensor.
  init(of capture: RecordedCapture) throws(ConversionError) {
    let steady = capture.tables.filter { Self.clock(of: $0) != nil }
    guard let table = steady.first, let clock = Self.clock(of: table) else {
      let names = capture.tables.map(\.name)
      throw .unsuitable(
        names.contains(RingStream.ppg.name) || names.contains(RingStream.accelerometer.name)
          ? "\(capture.directory) has no table 'samples', which has the steady rate that signals need; "
            + "make it: ringtap analyse \(capture.directory) --output \(capture.directory)"
          : "no table in \(capture.directory) has the steady rate that signals need "
            + "(\(names.joined(separator: ", "))); convert to csv, npy or ndjson")
    }
    self.table = table
    self.clock = clock
    let hasUnits = table.columns.contains { $0.unit == "g" }
    signals = table.columns.enumerated().compactMap { place, column in
      Self.signal(column, place, table.name, acceleration: hasUnits ? "g" : "mg")
    }
    transducer = clock == .ticks ? "ring, raw stream" : "sensor, raw stream"
  }

  private static func clock(of table: RecordedTable) -> Clock? {
    if table.name == TickRows.table.name { return .ticks }
    return table.columns.count > 1 && table.columns[1].name == "device_time_ns" ? .device : nil
  }

  private static func signal(
    _ column: RecordedColumn, _ place: Int, _ table: String, acceleration: String
  ) -> Signal? {
    let name = column.name
    func signal(_ label: String, _ grain: SignalGrain, _ group: String) -> Signal {
      Signal(label: label, unit: column.unit, grain: grain, place: place, group: group)
    }
    switch column.unit {
    case "g": return signal("Acc \(name.prefix(1))", .acceleration, "Acc")
    case "mg": return signal("Acc \(name.prefix(1))", .decimals(3), "Acc")
    case "uV": return signal("ECG", .integers(-0x8000_0000...0x7FFF_FFFF), "ECG")
    case "counts":
      let stem = name.dropLast("_counts".count)
      if table != TickRows.table.name {
        return signal("PPG \(stem)", .integers(-0x8000_0000...0x7FFF_FFFF), "PPG")
      }
      // Acceleration has its counts and its g.
      guard let space = stem.firstIndex(of: "_") else { return nil }
      let group = stem[..<space] == "ppg" ? "PPG" : "SpO2"
      return signal("\(group) \(stem[space...].dropFirst())", .integers(0...0xFFFF), group)
    case "ns": return nil
    default:
      return name.hasPrefix("channel") ? signal(name, .decimals(3), "all") : nil
    }
  }

  // MARK: Time

  /// Where a row lies: on its clock, or only by the kernel's.
  struct Moment {
    /// Nanoseconds since the Unix epoch: fitted, or when the frame came.
    let time: Int64
    /// Number of the tick, or nanoseconds of the sensor; `nil` where it does not tell.
    let clock: Int64?
    /// Differs where the clock began anew.
    let fit: Int64
  }

  func moment(_ words: [UInt64]) -> Moment {
    let time = Int64(bitPattern: words[0])
    let second = Int64(bitPattern: words[1])
    return switch clock {
    case .ticks: Moment(time: time, clock: second, fit: Int64(bitPattern: words[3]))
    case .device: Moment(time: time, clock: second == .min ? nil : second, fit: 0)
    }
  }

  /// Periods of the clock between two rows, where it runs through; `nil` where only their times tell.
  ///
  /// - Parameter period: nanoseconds from row to row.
  func steps(from old: Moment, to new: Moment, period: Double) -> Int? {
    guard let distance = distance(old, new) else { return nil }
    let steps = clock == .ticks ? distance : (distance / period).rounded()
    return steps * period < SignalScan.fillLimit * 1e9 ? max(1, Int(steps)) : nil
  }

  /// Nanoseconds and periods between two rows that tell of the rate; `nil` where they do not.
  ///
  /// - Parameter period: as far as it is known; `nil` before.
  func interval(from old: Moment, to new: Moment, period: Double?) -> (nanoseconds: Double, periods: Double)?
  {
    guard let distance = distance(old, new) else { return nil }
    switch clock {
    case .ticks:
      let (time, isTooLong) = new.time.subtractingReportingOverflow(old.time)
      return time > 0 && !isTooLong ? (Double(time), distance) : nil
    case .device:
      if let period, distance > 1.5 * period { return nil }
      return (distance, 1)
    }
  }

  /// By the sensor's clock; `nil` where it stood, was set back or began anew.
  private func distance(_ old: Moment, _ new: Moment) -> Double? {
    guard old.fit == new.fit, let first = old.clock, let second = new.clock, second > first else {
      return nil
    }
    let (distance, isTooFar) = second.subtractingReportingOverflow(first)
    return isTooFar ? nil : Double(distance)
  }

  /// Whether a row's time is that of the frame it came in, of which it may be any sample.
  var stampIsOfFrame: Bool { clock == .device }
}
