import BLEWire
import JSONText
import Recording

extension AnalysisReport.Table {
  /// A column of a user-defined sensor.
  package struct Column: Sendable {
    package let name: String
    package let unit: String
    package fileprivate(set) var range = NumberRange()

    func encode(into line: inout JSONLine) {
      line.member(name) { line in
        line.member("values", range.count)
        if !unit.isEmpty { line.member("unit", unit) }
        range.encode("", into: &line)
      }
    }
  }
}

/// Mean and range of each column of a table whose meaning is unknown.
struct ValueAnalysis: RowAnalysis {
  private(set) var columns: [AnalysisReport.Table.Column]
  private let table: RecordedTable

  init(_ table: RecordedTable) {
    self.table = table
    columns = table.columns.dropFirst().map { AnalysisReport.Table.Column(name: $0.name, unit: $0.unit) }
  }

  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) {
    results.take(ReceiveTime(nanoseconds: Int64(bitPattern: words[0])))
    for place in columns.indices {
      columns[place].range.add(table.columns[place + 1].number(words[place + 1]))
    }
  }
}
