package import BLELinux
package import JSONText
package import Recording

/// Reads the directory of a capture: its tables, their format, and `session.json`.
package struct RecordedCapture {
  package let directory: String
  package let format: TableFormat
  package let tables: [RecordedTable]
  /// Files that look like tables but are not recorded ones, with the reason.
  package let leftOut: [String]
  /// The contents of `session.json`; `nil` if the file is missing or unreadable.
  package let session: JSONDocument?
  /// Existing files that cannot be read: `session.json`, and files with the names of tables.
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

  /// Received and lost values; `nil` if `unknownLoss` has a reason.
  package var ledger: Ledger? { unknownLoss == nil ? session.map { Ledger($0) } : nil }

  /// The reason why the loss is unknown; `nil` if `session.json` states it.
  package var unknownLoss: String? {
    guard let session else {
      return SessionDocument.isMissing(in: directory)
        ? "there is no session.json" : "session.json cannot be read"
    }
    return SessionDocument.unknownLoss(session)
  }

  /// Rows per second of the tick table, as fitted by the recorder.
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
  /// Returns the table that a recorder writes with this name and these columns; `nil` if it is unknown.
  package static func known(_ name: String, _ columns: [String]) -> RecordedTable? {
    let tables =
      RingStream.allCases.map(\.table) + [TickRows.table] + HeartRateTables.tables + TemperatureTables.tables
      + CyclingTables.tables
      + PolarTables.tables(named: name, channelCount: columns.count - PolarRows.timeCount)
    return tables.first { $0.name == name && $0.columns.map(\.name) == columns }
  }

  /// Whether these are the columns of a table of format 1, which differ: of a ring's light, of its ticks, or of
  /// a Polar sensor.
  fileprivate static func haveFormat1(_ columns: [String]) -> Bool {
    columns.starts(with: ["time_ns", "value_counts"]) || columns.starts(with: ["time_ns", "device_time_ns"])
      || columns.contains("ppg_value_counts")
  }
}

/// Finds the captures in a directory: the directory itself or, if several devices were recorded together, its
/// subdirectories.
package enum CaptureGroup {
  /// - Returns: paths, sorted; only the directory itself if it is not a group.
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
