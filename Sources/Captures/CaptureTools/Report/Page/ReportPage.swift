import BLEDissector
import BLEWire
import JSONText
import Recording

extension ReportDocument {
  /// The report as one self-contained HTML page with style, scripts and samples. Its content security policy
  /// forbids requests.
  package var page: [UInt8] {
    var page: [UInt8] = []
    page += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n".utf8
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n".utf8
    page += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ".utf8
    page += "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n".utf8
    page += "<link rel=\"icon\" href=\"data:,\">\n<title>\(title.markup)</title>\n".utf8
    page.append("style", [.libraryStyle, .style])
    page += "</head>\n<body>\n<main id=\"page\"><p>This page shows its plots by JavaScript.</p></main>\n".utf8
    page += "<script type=\"application/json\" id=\"report\">".utf8
    page += Self.withoutMarkup(json)
    page += "</script>\n".utf8
    for (number, section) in sections.enumerated() {
      for (index, table) in section.tables.enumerated() {
        page += "<script type=\"text/plain\" id=\"data-\(number)-\(index)\">".utf8
        page.append(base64: table.table.packed)
        page += "</script>\n".utf8
      }
    }
    page += "<!--\n".utf8
    page += PageFile.libraryLicence.octets
    page += "-->\n".utf8
    for file in [PageFile.library, .data, .charts, .script] { page.append("script", [file]) }
    page += "</body>\n</html>\n".utf8
    return page
  }

  /// Escapes `<`, the only character that could end the script element. In JSON it occurs only in strings.
  private static func withoutMarkup(_ json: [UInt8]) -> [UInt8] {
    json.reduce(into: []) { text, octet in
      if octet == UInt8(ascii: "<") { text += "\\u003c".utf8 } else { text.append(octet) }
    }
  }

  // MARK: JSON

  private var json: [UInt8] {
    var line = JSONLine(.replaced)
    line.object { line in
      line.member("title", title)
      line.member("subtitle", subtitle)
      line.member("footer", "Written by ringtap report. Times are UTC. Estimates, not medical advice.")
      line.member(
        "problems", array: { line in for problem in problems { line.object { problem.encode(&$0) } } })
      line.member("facts", array: { line in for group in facts { line.object { group.encode(&$0) } } })
      line.member(
        "sections", array: { line in for section in sections { line.object { section.encode(&$0) } } })
    }
    return line.octets
  }
}

extension ReportProblem {
  fileprivate func encode(_ line: inout JSONLine) {
    line.member("severity", severity.rawValue)
    line.member("text", text)
  }
}

extension ReportSection.Facts {
  fileprivate func encode(_ line: inout JSONLine) {
    line.member("title", title)
    line.member(
      "rows",
      array: { line in
        for row in rows {
          line.array { line in
            line.value(row.name)
            line.value(row.value)
          }
        }
      })
  }
}

extension ReportSection {
  fileprivate func encode(_ line: inout JSONLine) {
    line.member("title", title)
    // Written as a string, because it has more digits than a JavaScript number can represent.
    line.member("startNs", "\(timeAxis.lowerBound)")
    line.member("seconds", offset(timeAxis.upperBound))
    line.member("legend", legend(in: timeAxis))
    if let view {
      line.member(
        "window",
        array: { line in for time in [view.lowerBound, view.upperBound] { line.value(offset(time)) } })
    }
    line.member(
      "summary", array: { line in for figure in summary { line.object { figure.encode(&$0) } } })
    line.member(
      "problems", array: { line in for problem in problems { line.object { problem.encode(&$0) } } })
    line.member("facts", array: { line in for group in facts { line.object { group.encode(&$0) } } })
    line.member("tables", array: { line in for table in tables { line.object { encode(table, &$0) } } })
    line.member("charts", array: { line in for chart in charts { line.object { chart.encode(&$0) } } })
    line.member("marks", array: { line in for mark in sortedMarks { line.object { encode(mark, &$0) } } })
    line.member(
      "changes",
      array: { line in
        for change in changes {
          line.array { line in
            line.value(offset(change.time))
            line.value(change.text)
          }
        }
      })
    line.member(
      "histograms",
      array: { line in
        for histogram in histograms where histogram.durations.count > 0 {
          line.object { histogram.encode(&$0) }
        }
      })
    encodeConversation(&line)
  }

  private var sortedMarks: [Mark] { marks.sorted { $0.from < $1.from } }

  /// Returns the seconds since the start of the time axis.
  private func offset(_ time: Int64) -> Double { Double(time &- timeAxis.lowerBound) / 1e9 }

  private func encode(_ table: Table, _ line: inout JSONLine) {
    line.member("name", table.table.name)
    line.member("isDerived", table.isDerived)
    line.member("count", table.table.count)
    let start = timeAxis.lowerBound
    line.member("offsetNs", (table.table.first ?? start) &- start)
    line.member(
      "columns",
      array: { line in
        for column in table.table.columns {
          line.object { line in
            line.member("name", column.name)
            line.member("unit", column.unit)
            line.member("divisor", column.divisor)
          }
        }
      })
  }

  private func encode(_ mark: Mark, _ line: inout JSONLine) {
    line.member("from", offset(mark.from))
    line.member("to", offset(mark.to))
    line.member("kind", mark.kind.rawValue)
    line.member("text", mark.text)
  }

  private func encodeConversation(_ line: inout JSONLine) {
    line.member("conversation") { line in
      line.member("omitted", conversation.omittedRows)
      line.member(
        "rows",
        array: { line in
          for row in conversation.rows {
            line.array { line in
              line.value(offset(row.first.nanoseconds))
              line.value(offset(row.last.nanoseconds))
              line.value(row.direction == .hostToController)
              line.value(row.name)
              line.value(row.count)
              line.value(row.text)
            }
          }
        })
    }
  }
}

extension ReportSection.Figure {
  fileprivate func encode(_ line: inout JSONLine) {
    line.member("name", name)
    line.member("value", value)
    line.member("unit", unit)
    line.member("detail", detail)
    line.member("isBad", isBad)
  }
}

extension ReportSection.Chart {
  fileprivate func encode(_ line: inout JSONLine) {
    line.member("title", title)
    line.member("unit", unit)
    line.member("table", table)
    line.member("style", style.rawValue)
    line.member("axis") { line in
      line.member("leastSpan", axis.leastSpan)
      line.member("leastShare", axis.leastShare)
      if let range = axis.includes {
        line.member(
          "includes", array: { line in for end in [range.lowerBound, range.upperBound] { line.value(end) } })
      }
      line.member("keepsAll", axis.keepsAll)
    }
    line.member(
      "series",
      array: { line in
        for series in series {
          line.object { line in
            line.member("column", series.column)
            line.member("label", series.label)
            line.member("isShown", series.isShown)
          }
        }
      })
  }
}

extension ReportSection.Histogram {
  fileprivate func encode(_ line: inout JSONLine) {
    line.member("title", title)
    line.member("summary", summary)
    line.member(
      "buckets",
      array: { line in
        for bucket in durations.buckets {
          line.array { line in
            line.value(bucket.start)
            line.value(bucket.count)
          }
        }
      })
  }

  private var summary: String {
    guard let summary = DurationSummary(durations) else { return "" }
    func milliseconds(_ nanoseconds: Int64) -> String { NumberText.fixed(Double(nanoseconds) / 1e6, 2) }
    return "\(summary.count), in ms: p50 \(milliseconds(summary.p50)), p90 \(milliseconds(summary.p90)), "
      + "p99 \(milliseconds(summary.p99)), max \(milliseconds(summary.maximum))"
  }
}

extension ReportTable {
  /// Packed times, followed by the packed columns.
  fileprivate var packed: [UInt8] { columns.reduce(into: times.octets) { $0 += $1.numbers.octets } }
}

extension [UInt8] {
  /// Appends an element of HTML that contains the files.
  package mutating func append(_ element: String, _ files: [PageFile]) {
    self += "<\(element)>\n".utf8
    for file in files {
      self += file.octets
      self += "\n".utf8
    }
    self += "</\(element)>\n".utf8
  }

  /// Appends the data in base64. RFC 4648, 4.
  package mutating func append(base64 octets: [UInt8]) {
    let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    reserveCapacity(count + (octets.count + 2) / 3 * 4)
    for start in stride(from: 0, to: octets.count, by: 3) {
      let left = Swift.min(3, octets.count - start)
      var bits = UInt32(octets[start]) << 16
      if left > 1 { bits |= UInt32(octets[start + 1]) << 8 }
      if left > 2 { bits |= UInt32(octets[start + 2]) }
      for digit in 0..<4 {
        append(digit <= left ? digits[Int(bits >> UInt32(18 - 6 * digit) & 0x3F)] : UInt8(ascii: "="))
      }
    }
  }
}
