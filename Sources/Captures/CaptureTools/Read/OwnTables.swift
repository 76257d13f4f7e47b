import BLELinux
import JSONText
import Recording

/// Tables of user-defined sensors (`SensorKind(_:of:…)`), which the capture describes, and tables in a folder
/// without `session.json`, whose column names end in units.
enum OwnTables {
  /// Lines of a text table that are examined for the number of decimals if `session.json` lacks it, as in
  /// older recordings.
  private static let measuredLines = 200
  private static let lineLimit = 4096
  private static let mostDecimals = 9

  /// Describes a table of text.
  ///
  /// - Parameters:
  ///   - columns: column names from the first line.
  ///   - session: `session.json` of the capture.
  /// - Returns: `nil` if the table has no time column, or if there is a `session.json` that does not list it.
  static func text(
    _ name: String, _ columns: [String], in directory: String, _ session: JSONDocument?
  ) -> RecordedTable? {
    guard hasTime(columns) else { return nil }
    guard let session else { return measured(name, columns, in: directory) }
    guard let stream = session["streams"]?[name] else { return nil }
    let described = stream["columns"]?.array ?? []
    guard described.compactMap({ $0["name"]?.text }) == Array(columns.dropFirst()) else {
      return described.isEmpty ? measured(name, columns, in: directory) : nil
    }
    return table(
      name,
      described.map { column in
        let decimals = column["decimals"]?.integer(Int.self) ?? mostDecimals
        return RecordedColumn(
          column["name"]?.text ?? "", .float64(decimals: max(0, min(mostDecimals, decimals))),
          unit: column["unit"]?.text ?? "")
      })
  }

  /// Describes a table of arrays.
  ///
  /// - Parameters:
  ///   - description: the table's member of `columns.json`.
  ///   - session: `session.json` of the capture, which has the number of decimals.
  /// - Returns: `nil` if the table has no time column, or a column of another type.
  static func arrays(
    _ name: String, _ description: JSONDocument, _ session: JSONDocument?
  ) -> RecordedTable? {
    let columns = description["columns"]?.array ?? []
    let names = columns.compactMap { $0["name"]?.text }
    guard names.count == columns.count, hasTime(names), columns[0]["dtype"]?.text == "<i8",
      columns.dropFirst().allSatisfy({ $0["dtype"]?.text == "<f8" })
    else { return nil }
    let described = session?["streams"]?[name]?["columns"]?.array ?? []
    return table(
      name,
      columns.dropFirst().map { column in
        let told = described.first { $0["name"]?.text == column["name"]?.text }
        let decimals = told?["decimals"]?.integer(Int.self) ?? mostDecimals
        return RecordedColumn(
          column["name"]?.text ?? "", .float64(decimals: max(0, min(mostDecimals, decimals))),
          unit: column["unit"]?.text ?? "")
      })
  }

  private static func hasTime(_ columns: [String]) -> Bool {
    columns.count > 1 && columns[0] == "time_ns" && Set(columns).count == columns.count
      && !columns.contains { $0.isEmpty || $0.contains("/") || $0.hasPrefix(".") }
  }

  private static func table(_ name: String, _ columns: [RecordedColumn]) -> RecordedTable {
    var table = RecordedTable(name: name, columns: [.time("time_ns")] + columns)
    table.isOwn = true
    return table
  }

  private static func measured(
    _ name: String, _ columns: [String], in directory: String
  ) -> RecordedTable? {
    var decimals = [Int](repeating: 0, count: columns.count)
    let path = directory + "/" + TableFormat.csv.fileName(name)
    guard var lines = try? TableLines(path: path, limit: lineLimit), (try? lines.next()) ?? false else {
      return nil
    }
    while lines.number <= measuredLines, (try? lines.next()) ?? false {
      let cells = lines.line.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
      for (place, cell) in cells.enumerated() where place < decimals.count {
        guard let point = cell.firstIndex(of: UInt8(ascii: ".")) else { continue }
        decimals[place] = min(mostDecimals, max(decimals[place], cell.endIndex - point - 1))
      }
    }
    return table(
      name,
      zip(columns, decimals).dropFirst().map {
        RecordedColumn($0.0, .float64(decimals: $0.1), unit: unit(of: $0.0))
      })
  }

  /// The unit at the end of a column's name, as in the tables of the built-in sensors; empty if it has none.
  private static func unit(of column: String) -> String {
    guard let bar = column.lastIndex(of: "_") else { return "" }
    return units[String(column[column.index(after: bar)...])] ?? ""
  }

  private static let units: [String: String] = {
    let tables =
      RingStream.allCases.map(\.table) + HeartRateTables.tables + TemperatureTables.tables
      + CyclingTables.tables
    let columns = tables.flatMap(\.columns).filter { !$0.unit.isEmpty && $0.name.contains("_") }
    let found = columns.map { ($0.name.split(separator: "_").last.map(String.init) ?? "", $0.unit) }
    return Dictionary(found, uniquingKeysWith: { first, _ in first })
  }()
}
