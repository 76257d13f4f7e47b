import BLEPacketLog
package import BLEWire

/// Prints a `LogReport` as tables.
package struct StatisticsText {
  private var text = ""

  package init(_ report: LogReport) {
    printLog(report)
    if let air = report.air {
      for line in AirText.lines(air, from: report.firstTime) { self.line(line) }
    }
    for (index, connection) in report.connections.enumerated() {
      print(connection, number: index + 1, logStart: report.firstTime ?? connection.startTime)
    }
    if report.omittedConnections > 0 {
      line(
        "\n\(counted(report.omittedConnections, "further connection is", "further connections are")) not listed"
      )
    }
  }

  package var utf8: String.UTF8View { text.utf8 }

  private mutating func line(_ line: String) { text += line + "\n" }

  // MARK: The whole log

  private mutating func printLog(_ report: LogReport) {
    line("\(counted(report.records, "record")) in \(Self.seconds(report.duration)) s")
    for count in report.packets.counts {
      let name = Self.padded("\(count.type.title)", 16)
      line(
        "  \(name)\(Self.right(count.sent, 10)) sent\(Self.right(count.received, 10)) received"
          + "\(Self.column(count.octets, 12, "octet", endsLine: true))")
    }
    if report.notes > 0 { line("  \(Self.padded("notes", 16))\(Self.right(report.notes, 10))") }
    printLosses([
      (report.drops, "dropped by the log's writer", nil), (report.cut, "cut by the log's writer", nil),
      (report.malformed, "malformed", nil),
      (
        report.latePackets, "data packet after the end of its connection",
        "data packets after the end of their connection"
      ),
      (report.timeReversals, "record older than the one before", "records older than the one before"),
    ])
    for text in Self.clockSteps(report) { line("  ! \(text)") }
    let commands = report.commands.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
    if !commands.isEmpty { line("\nCommands") }
    for (opcode, count) in commands {
      line("\(Self.right(count, 10))  \(HCIOpcode(rawValue: opcode).logName) (\(Self.hexadecimal(opcode)))")
    }
    if !report.commandErrors.isEmpty { line("\nCommands with errors") }
    for (error, count) in report.sortedCommandErrors {
      line(
        "\(Self.right(count, 10))  \(error.opcode.logName) (\(Self.hexadecimal(error.opcode.rawValue))): "
          + Self.name(error.status))
    }
    if !report.events.isEmpty { line("\nEvents") }
    for (event, count) in report.sortedEvents {
      let subevent = event.subevent.map { "/0x\(Self.hexadecimal($0))" } ?? ""
      line("\(Self.right(count, 10))  \(event.name) (0x\(Self.hexadecimal(event.code.rawValue))\(subevent))")
    }
  }

  /// Returns sentences about steps of the log's clock, for the user.
  package static func clockSteps(_ report: LogReport) -> [String] {
    var texts = report.clockSteps.map { step in
      let span = step.span.nanoseconds
      let amount = "\(seconds(Int64(clamping: span.magnitude))) s"
      let place = "at record \(step.index)"
      return step.isCertain
        ? "the clock was set \(span < 0 ? "back" : "forward") by \(amount) \(place); times continue from "
          + "those before it"
        : span < 0
          ? "the times go back by \(amount) \(place): an older log was appended, or the clock was set; the log "
            + "does not show which"
          : "a pause of \(amount) before record \(step.index), or the clock was set forward: the log does not "
            + "show which"
    }
    if report.clockStepCount > texts.count {
      texts.append("the clock was set \(counted(report.clockStepCount - texts.count, "more time"))")
    }
    if report.disorderedRecords > 0 {
      let count = report.disorderedRecords
      texts.append(
        "\(count) \(count == 1 ? "record has a time" : "records have times") that the records around "
          + "\(count == 1 ? "it contradict: it takes" : "them contradict: they take") the time of a neighbour"
      )
    }
    let back =
      report.timeReversals - report.disorderedRecords
      - report.clockSteps.count { !$0.isCertain && $0.span.nanoseconds < 0 }
    if back > 0 {
      texts.append("the times go back \(counted(back, "time")), and so do those of the rows")
    }
    return texts
  }

  /// Prints the counts that are not 0, each with a text for 1 and a text for larger numbers; `nil` if both
  /// texts are the same.
  private mutating func printLosses(_ losses: [(count: Int, one: String, several: String?)]) {
    for (count, one, several) in losses where count > 0 {
      line("  ! \(counted(count, one, several ?? one))")
    }
  }

  // MARK: One connection

  private mutating func print(_ connection: ConnectionReport, number: Int, logStart: ReceiveTime) {
    let start = nanoseconds(from: logStart, to: connection.startTime)
    line("\nConnection \(number): \(Self.title(connection))")
    let origin = connection.origin == .connected ? "connected" : "recorded from the middle on,"
    line(
      "  \(origin) at \(Self.seconds(start)) s, for \(Self.seconds(connection.duration)) s; "
        + Self.text(connection.end))
    if let parameters = connection.parameters { line("  started with \(Self.text(parameters))") }
    for change in connection.changes {
      let time = Self.seconds(nanoseconds(from: connection.startTime, to: change.time))
      line("    +\(time) s  \(Self.text(change.value))")
    }
    if connection.omittedChanges > 0 { line("    and \(counted(connection.omittedChanges, "change")) more") }
    for (name, traffic) in [("sent", connection.sent), ("received", connection.received)] {
      line(
        "  \(Self.padded(name, 10))\(Self.column(traffic.packets, 9, "packet"))"
          + "\(Self.column(traffic.octets, 11, "octet"))"
          + "\(Self.padded(Self.fixed(connection.throughput(traffic), 1), left: 12)) octets/s")
    }
    if let uncompleted = connection.uncompletedPackets, uncompleted > 0 {
      line("  ! \(counted(uncompleted, "packet")) sent without a completion at the end")
    }
    let beyond = "of attributes beyond the \(ConnectionAccount.maximumAttributes)th"
    printLosses([
      (connection.drops, "packet dropped by the log's writer", "packets dropped by the log's writer"),
      (connection.cut, "cut by the log's writer", nil), (connection.malformed, "malformed", nil),
      (connection.unaskedResponses, "response without a request", "responses without a request"),
      (connection.omittedUpdates, "update \(beyond)", "updates \(beyond)"),
    ])
    printAttributes(connection)
    printRequests(connection)
  }

  private static let percentileTitles =
    padded("p50", left: 11) + padded("p90", left: 11) + padded("p99", left: 11) + padded("p99.9", left: 11)
    + padded("max", left: 11)

  private mutating func printAttributes(_ connection: ConnectionReport) {
    if connection.attributes.isEmpty { return }
    line(
      "  Updates (ms)" + Self.padded("count", left: 18) + Self.padded("octets", left: 10)
        + Self.percentileTitles)
    for attribute in connection.attributes {
      let kind = attribute.opcode == .handleValueIndication ? "indication" : "notification"
      let name = "0x\(Self.digits(attribute.handle.rawValue)) \(kind)"
      let arrow = attribute.direction == .hostToController ? "<" : ">"
      line(
        "  \(arrow) \(Self.padded(name, 20))\(Self.right(attribute.count, 8))\(Self.right(attribute.octets, 10))"
      )
      printRow("interval", attribute.intervals)
      printRow("jitter", attribute.jitter)
      if attribute.gapCount == 0 { continue }
      let list = attribute.gaps.prefix(5).map { gap in
        "\(Self.milliseconds(gap.duration)) ms at "
          + "+\(Self.seconds(nanoseconds(from: connection.startTime, to: gap.time))) s"
      }
      line(
        "      \(counted(attribute.gapCount, "pause")), longest \(list.joined(separator: ", "))"
      )
    }
  }

  private mutating func printRow(_ name: String, _ summary: DurationSummary?) {
    guard let summary else { return }
    line("      \(Self.padded(name, 36))\(Self.percentiles(summary))")
  }

  private mutating func printRequests(_ connection: ConnectionReport) {
    if connection.requests.isEmpty { return }
    line(
      "  Requests (ms)" + Self.padded("count", left: 23) + Self.padded("err", left: 5)
        + Self.padded("lost", left: 5) + Self.percentileTitles)
    for request in connection.requests {
      let arrow = request.direction == .hostToController ? "<" : ">"
      line(
        "  \(arrow) \(Self.padded("\(request.opcode.name)", 30))\(Self.right(request.count, 6))"
          + "\(Self.right(request.errors, 5))\(Self.right(request.unanswered, 5))"
          + (request.latency.map(Self.percentiles) ?? ""))
    }
  }

  // MARK: Words and numbers

  package static func title(_ connection: ConnectionReport) -> String {
    var title = connection.peer.map { "\($0.description) (\($0.type.name))" } ?? "unknown peer"
    title += ", handle \(connection.handle.rawValue)"
    if connection.adapter > 0 { title += ", hci\(connection.adapter)" }
    if connection.transport == .classic { title += ", BR/EDR" }
    if let role = connection.role { title += role == .central ? ", as central" : ", as peripheral" }
    return title
  }

  static func name(_ status: HCIStatus) -> String {
    "\(status.name) (0x\(Self.hexadecimal(status.rawValue)))"
  }

  package static func text(_ end: ConnectionReport.End) -> String {
    switch end {
    case .disconnected(let reason): "ended: \(name(reason))"
    case .replaced: "its end is missing: the handle was reused"
    case .evicted: "no longer followed: too many connections at once"
    case .endOfLog: "still connected at the end of the log"
    }
  }

  package static func text(_ parameters: LinkParameters) -> String {
    "interval \(fixed(parameters.intervalMilliseconds, 2)) ms, latency \(parameters.latency), "
      + "timeout \(parameters.supervisionTimeoutMilliseconds) ms"
  }

  package static func text(_ value: ParameterChange.Value) -> String {
    switch value {
    case .timing(let parameters): text(parameters)
    case .phy(let transmit, let receive): "PHY sent \(phy(transmit)), received \(phy(receive))"
    case .dataLength(let transmit, let receive):
      "data length sent \(transmit), received \(counted(receive, "byte"))"
    case .mtu(let mtu): "MTU \(counted(mtu, "byte"))"
    case .refused(let status): "change refused: \(name(status))"
    }
  }

  private static func phy(_ rawValue: UInt8) -> String {
    switch LEPHY(rawValue: rawValue) {
    case .le1M: "1M"
    case .le2M: "2M"
    case .leCoded: "coded"
    case nil: "\(rawValue)"
    }
  }

  private static func percentiles(_ summary: DurationSummary) -> String {
    [summary.p50, summary.p90, summary.p99, summary.p999, summary.maximum].reduce("") {
      $0 + padded(milliseconds($1), left: 11)
    }
  }

  /// Formats milliseconds with three decimals, because most logs have a precision of microseconds.
  static func milliseconds(_ nanoseconds: Int64) -> String { fixed(Double(nanoseconds) / 1e6, 3) }
  static func seconds(_ nanoseconds: Int64) -> String { fixed(Double(nanoseconds) / 1e9, 3) }

  /// Formats a non-negative number with `decimals` decimals.
  static func fixed(_ number: Double, _ decimals: Int) -> String {
    let scale = (0..<decimals).reduce(1) { scale, _ in scale * 10 }
    let scaled = (number * Double(scale)).rounded()
    guard scaled < 9e18 else { return number.description }
    let (whole, fraction) = Int(scaled).quotientAndRemainder(dividingBy: scale)
    return decimals == 0 ? "\(whole)" : "\(whole)." + padded("\(fraction)", left: decimals, with: "0")
  }

  private static func digits(_ number: UInt16) -> String {
    BLEWire.hexadecimal(UInt8(number >> 8)) + BLEWire.hexadecimal(UInt8(number & 0xFF))
  }

  static func hexadecimal(_ number: UInt16) -> String { "0x" + digits(number) }
  private static func hexadecimal(_ octet: UInt8) -> String { BLEWire.hexadecimal(octet) }

  private static func right(_ number: Int, _ width: Int) -> String { padded("\(number)", left: width) }

  /// Returns a number in a column, followed by its noun. The noun is padded to the width of its plural,
  /// except at the end of the line.
  private static func column(
    _ number: Int, _ width: Int, _ noun: String, endsLine: Bool = false
  ) -> String {
    right(number, width) + (number != 1 ? " \(noun)s" : endsLine ? " \(noun)" : " \(noun) ")
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(1, width - text.utf8.count))
  }

  private static func padded(_ text: String, left width: Int, with fill: Character = " ") -> String {
    String(repeating: fill, count: max(0, width - text.utf8.count)) + text
  }
}

extension LogReport {
  /// Events, most frequent first.
  var sortedEvents: [(event: Event, count: Int)] {
    events.map { ($0.key, $0.value) }.sorted {
      ($1.count, $0.event.code.rawValue, $0.event.subevent ?? 0)
        < ($0.count, $1.event.code.rawValue, $1.event.subevent ?? 0)
    }
  }

  var sortedCommandErrors: [(error: CommandError, count: Int)] {
    commandErrors.map { ($0.key, $0.value) }.sorted {
      ($1.count, $0.error.opcode.rawValue, $0.error.status.rawValue)
        < ($0.count, $1.error.opcode.rawValue, $1.error.status.rawValue)
    }
  }
}
