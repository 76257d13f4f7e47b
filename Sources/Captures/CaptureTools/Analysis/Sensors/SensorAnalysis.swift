import BLELinux
import Physiology
import Recording

/// Recorded table that can be read more than once.
protocol TableSource {
  var table: RecordedTable { get }
  /// Whether the table has a row.
  var hasRows: Bool { get }
  /// Returns a new reader, positioned before the first row.
  func reader() throws(SystemError) -> any TableReader
}

/// A table in a capture's directory.
struct CapturedTable: TableSource {
  let capture: RecordedCapture
  let table: RecordedTable
  let clockSteps: ClockSteps

  var hasRows: Bool { (try? reader())?.next() ?? false }
  func reader() throws(SystemError) -> any TableReader {
    let reader = try capture.reader(table)
    return clockSteps.isEmpty ? reader : SteadyReader(reader, clockSteps)
  }
}

/// Selects the analysis for a table by its name and columns.
enum SensorAnalysis {
  /// Returns the tables that the analysis of `table` writes.
  static func tables(of table: RecordedTable) -> [AnalysisTables.Table] {
    switch kind(of: table) {
    case .ecg: [.ecgWindows, .ecgBeats, .variability]
    case .light: [.pulse, .beatWindows, .beats, .respiration, .variability]
    case .acceleration: [.activity]
    case .intervals: [.variability]
    case .heartRate, .temperature, .cycling, .values, nil: []
    }
  }

  static func isAnalysed(_ table: RecordedTable) -> Bool { kind(of: table) != nil }

  private enum Kind {
    case heartRate, intervals, temperature, cycling, acceleration
    /// A table of a user-defined sensor.
    case values
    /// The associated value is the column's index.
    case ecg(Int)
    case light(Int)
  }

  private static func kind(of table: RecordedTable) -> Kind? {
    if table.isOwn { return .values }
    let names = table.columns.map(\.name)
    if let place = names.firstIndex(of: "ecg_uv") { return .ecg(place) }
    if let place = names.firstIndex(of: "ppg0_counts") { return .light(place) }
    if names.suffix(3) == ["x_mg", "y_mg", "z_mg"] { return .acceleration }
    return switch table {
    case HeartRateTables.tables[0]: .heartRate
    case HeartRateTables.tables[1]: .intervals
    case TemperatureTables.tables[0]: .temperature
    case CyclingTables.tables[0]: .cycling
    default: nil
    }
  }

  /// Analyses all rows of a table.
  ///
  /// - Parameter others: all tables of the same capture. The acceleration is read together with a light
  ///   table.
  static func run(
    _ source: any TableSource, beside others: [any TableSource], to results: inout AnalysisResults
  ) throws(SystemError) {
    var entry = AnalysisReport.Table(name: source.table.name, rows: 0)
    let reader: any TableReader
    var rows: (any RowAnalysis)?
    do throws(SystemError) {
      reader = try source.reader()
      rows = try analysis(of: source, others, &results.report)
    } catch {
      entry.problem = "\(error)"
      return results.report.tables.append(entry)
    }
    while reader.next() {
      if CaptureTable.times.contains(Int64(bitPattern: reader.words[0])) {
        try rows?.take(reader.words, to: &results)
        entry.rows += 1
      } else if entry.problem == nil {
        entry.problem = "\(source.table.name): row \(reader.rows) has no time; such rows are left out"
      }
    }
    try rows?.finish(&results)
    let problems = [entry.problem, reader.problem].compactMap(\.self)
    entry.problem = problems.isEmpty ? nil : problems.joined(separator: "; ")
    if let values = rows as? ValueAnalysis { entry.columns = values.columns }
    results.report.tables.append(entry)
  }

  private static func analysis(
    of source: any TableSource, _ others: [any TableSource], _ report: inout AnalysisReport
  ) throws(SystemError) -> (any RowAnalysis)? {
    guard let kind = kind(of: source.table) else { return nil }
    switch kind {
    case .heartRate:
      report.contents.insert(.heartRate)
      return HeartRateAnalysis()
    case .intervals: return IntervalAnalysis()
    case .temperature:
      report.contents.insert(.temperature)
      return TemperatureAnalysis()
    case .cycling:
      report.contents.insert(.cycling)
      return CyclingAnalysis()
    case .values: return ValueAnalysis(source.table)
    case .ecg(let column):
      report.contents.insert(.ecg)
      guard let clock = RowClock(try source.reader()) else { return noRate(&report.ecg.refusal) }
      do throws(ECGMeter.Refusal) { return try ECGAnalysis(clock, column: column) } catch {
        report.ecg.refusal = "\(error)"
        return nil
      }
    case .light(let column):
      report.contents.insert(.pulse)
      guard let clock = RowClock(try source.reader()) else { return noRate(&report.pulse.refusal) }
      let beside = try acceleration(others)
      do throws(PulseMeter.Refusal) { return try LightAnalysis(clock, column: column, beside) } catch {
        report.pulse.refusal = "\(error)"
        return nil
      }
    case .acceleration:
      report.contents.insert(.activity)
      guard let clock = RowClock(try source.reader()) else { return noRate(&report.activity.refusal) }
      guard let analysis = AccelerationAnalysis(clock) else {
        report.activity.refusal = "too few samples a second for movement"
        return nil
      }
      return analysis
    }
  }

  private static func noRate(_ refusal: inout String?) -> (any RowAnalysis)? {
    refusal = "the rows have no steady rate, or are too few to determine it"
    return nil
  }

  /// Returns a reader for the first acceleration table with a steady rate, positioned before its first row,
  /// and the clock of its rows.
  private static func acceleration(
    _ sources: [any TableSource]
  ) throws(SystemError) -> (any TableReader, RowClock)? {
    for source in sources {
      guard case .acceleration = kind(of: source.table), let clock = RowClock(try source.reader()) else {
        continue
      }
      return (try source.reader(), clock)
    }
    return nil
  }
}
