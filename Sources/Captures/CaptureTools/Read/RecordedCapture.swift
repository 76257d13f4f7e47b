package import BLELinux
package import JSONText
package import Recording

/// Directory of a capture: its tables, their format, and `session.json`.
package struct RecordedCapture {
  package let directory: String
  package let format: TableFormat
  package let tables: [RecordedTable]
  /// Files that look like tables but were not recorded, each with the reason.
  package let leftOut: [String]
  /// Contents of `session.json`; `nil` if the file is missing or unreadable.
  package let session: JSONDocument?
  /// Files that exist but cannot be read: `session.json` and files with the names of tables.
  package let problems: [String]

  /// Maximum size of `session.json` and `columns.json`, in bytes.
  private static let documentLimit = 1 << 23

  package init(_ directory: String) throws(ConversionError) {
    self.directory = directory
    session = try? SessionDocument.read(in: directory)
    let damage = session == nil ? SessionDocument.damage(in: directory) : nil
    let names = Files.names(in: directory)
    var unreadable: [String] = []
    let old: [String]
    if names.contains(ColumnIndex.fileName) {
      format = .npy
      (tables, leftOut, old) = try Self.arrays(directory, session)
    } else {
      format = .csv
      (tables, leftOut, old) = Self.texts(directory, names, session, &unreadable)
    }
    guard old.isEmpty else {
      let log = session?["packetLog"]?.text.flatMap { names.contains($0) ? "\(directory)/\($0)" : nil }
      throw .oldFormat(directory: directory, tables: old, log: log)
    }
    problems = [damage].compactMap(\.self) + unreadable
    guard tables.isEmpty else { return }
    let why =
      Files.exists(directory)
      ? "it has neither \(ColumnIndex.fileName) nor tables" : "there is no such directory"
    throw .noCapture(directory: directory, why: ([why] + leftOut + unreadable).joined(separator: "; "))
  }

  package func reader(_ table: RecordedTable) throws(SystemError) -> any TableReader {
    switch format {
    case .csv: try TextTableReader(table, in: directory)
    case .npy: try ArrayTableReader(table, in: directory)
    }
  }

  /// Numbers of received and lost values; `nil` if the loss is unknown.
  package var ledger: Ledger? { unknownLoss == nil ? session.map { Ledger($0) } : nil }

  /// Reason why the loss is unknown; `nil` if `session.json` contains it.
  package var unknownLoss: String? {
    guard let session else {
      return SessionDocument.isMissing(in: directory)
        ? "there is no session.json" : "session.json cannot be read"
    }
    return SessionDocument.unknownLoss(session)
  }

  /// Rows per second of the table of ticks, from the recorder's fit.
  package var tickRate: Double? { session?["ticks"]?["rateHz"]?.real }

  private static func document(_ path: String) -> JSONDocument? {
    guard let octets = try? Files.octets(of: path, limit: documentLimit) else { return nil }
    return try? JSONDocument(octets)
  }

  private static func texts(
    _ directory: String, _ names: [String], _ session: JSONDocument?, _ unreadable: inout [String]
  ) -> (tables: [RecordedTable], leftOut: [String], old: [String]) {
    var (tables, leftOut, old): ([RecordedTable], [String], [String]) = ([], [], [])
    for name in names.sorted() where name.hasSuffix(".csv") {
      let header: String
      do throws(SystemError) { header = try TextTableReader.header(directory + "/" + name) } catch {
        unreadable.append("\(error)")
        continue
      }
      let columns = header.split(separator: ",").map(String.init)
      let title = String(name.dropLast(4))
      if session?["formatVersion"] == nil, RecordedTable.haveFormat1(columns) {
        old.append(name)
      } else if let table = RecordedTable.known(title, columns)
        ?? OwnTables.text(title, columns, in: directory, session)
      {
        tables.append(table)
      } else {
        leftOut.append("\(name): the first line is not the header of a recorded table; left out")
      }
    }
    return (tables, leftOut, old)
  }

  private static func arrays(
    _ directory: String, _ session: JSONDocument?
  ) throws(ConversionError) -> (tables: [RecordedTable], leftOut: [String], old: [String]) {
    let path = directory + "/" + ColumnIndex.fileName
    guard let index = document(path), case .object(let members)? = index["tables"] else {
      throw .noCapture(directory: directory, why: "\(ColumnIndex.fileName) cannot be read")
    }
    var (tables, leftOut, old): ([RecordedTable], [String], [String]) = ([], [], [])
    for (name, member) in members.sorted(by: { $0.key < $1.key }) {
      let columns = (member["columns"]?.array ?? []).compactMap { $0["name"]?.text }
      if session?["formatVersion"] == nil, RecordedTable.haveFormat1(columns) {
        old.append(name)
      } else if let table = RecordedTable.known(name, columns) ?? OwnTables.arrays(name, member, session) {
        tables.append(table)
      } else {
        leftOut.append("\(ColumnIndex.fileName): skipping \(name): unknown columns")
      }
    }
    return (tables, leftOut, old)
  }
}

extension RecordedTable {
  /// Returns the table that a recorder writes with this name and these columns; `nil` if no table matches.
  package static func known(_ name: String, _ columns: [String]) -> RecordedTable? {
    let tables = AnySensorKind.types.flatMap { $0.tables(named: name, columnCount: columns.count) }
    return tables.first { $0.name == name && $0.columns.map(\.name) == columns }
  }

  /// Returns whether the columns exist only in tables of format 1: of a ring's light, of a ring's ticks, or
  /// of a Polar sensor.
  fileprivate static func haveFormat1(_ columns: [String]) -> Bool {
    columns.starts(with: ["time_ns", "value_counts"]) || columns.starts(with: ["time_ns", "device_time_ns"])
      || columns.contains("ppg_value_counts")
  }
}

/// Finds the captures in a directory. These are the directory itself, or its subdirectories if several
/// devices were recorded together.
package enum CaptureGroup {
  /// Returns the captures' paths, sorted; only the directory itself if it is not a group.
  package static func members(of directory: String) -> [String] {
    let base = directory.hasSuffix("/") ? String(directory.dropLast()) : directory
    guard !isCapture(directory) else { return [directory] }
    let names = Files.names(in: directory).filter { !$0.hasPrefix(".") }.sorted()
    let members = names.map { "\(base)/\($0)" }.filter(isCapture)
    return members.isEmpty ? [directory] : members
  }

  /// Returns the last component of a path.
  package static func name(_ path: String) -> String {
    path.split(separator: "/").last.map(String.init) ?? path
  }

  private static func isCapture(_ directory: String) -> Bool {
    Files.names(in: directory).contains {
      $0 == "session.json" || $0 == ColumnIndex.fileName || $0.hasSuffix(".csv")
        || $0.hasSuffix(".csv.gz") || $0.hasSuffix(".csv.zst")
    }
  }
}

/// Tables of user-defined sensors (`SensorKind(_:of:…)`), which the capture describes, and tables in a folder
/// without `session.json`, whose column names end in units.
enum OwnTables {
  /// Number of lines read to determine the number of decimals if `session.json` does not contain it, as in
  /// older recordings.
  private static let measuredLines = 200
  private static let lineLimit = 4096
  private static let mostDecimals = 9

  /// Describes a table stored as text.
  ///
  /// - Parameters:
  ///   - name: name of the table.
  ///   - columns: column names from the first line.
  ///   - directory: directory of the table.
  ///   - session: `session.json` of the capture.
  /// - Returns: `nil` if the table has no time column, or if `session.json` exists but does not list the
  ///   table.
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

  /// Describes a table stored as arrays.
  ///
  /// - Parameters:
  ///   - name: name of the table.
  ///   - description: the table's member of `columns.json`.
  ///   - session: `session.json` of the capture, which contains the number of decimals.
  /// - Returns: `nil` if the table has no time column, or a column of an unknown type.
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

  /// Returns the unit at the end of a column's name, as in the tables of the built-in sensors; empty if the
  /// name has no unit.
  private static func unit(of column: String) -> String {
    guard let bar = column.lastIndex(of: "_") else { return "" }
    return units[String(column[column.index(after: bar)...])] ?? ""
  }

  private static let units: [String: String] = {
    let tables = AnySensorKind.types.flatMap { $0.tables(named: "", columnCount: 0) }
    let columns = tables.flatMap(\.columns).filter { !$0.unit.isEmpty && $0.name.contains("_") }
    let found = columns.map { ($0.name.split(separator: "_").last.map(String.init) ?? "", $0.unit) }
    return Dictionary(found, uniquingKeysWith: { first, _ in first })
  }()
}
