package import BLELinux
package import BLEPacketLog
package import BLEWire

/// Messages, shared by all commands, for a log that cannot be read or cannot be read to its end.
package enum LogProblem {
  package static func name(_ path: String) -> String { path == "-" ? "standard input" : path }

  /// The file cannot be opened, or the path is not a file.
  package static func text(_ error: SystemError) -> String {
    "cannot open the log: \("\(error)".dropFirst(error.call.utf8.count + 2))"
  }

  /// - Parameters:
  ///   - format: `nil` if the format is unknown.
  ///   - file: the likely type of a file that is not a packet log.
  ///   - records: number of records before the error.
  package static func text(
    _ error: WireError, _ format: PacketLogFormat?, _ file: ForeignFile?, records: Int
  ) -> String {
    guard format == nil else { return "\(error)\(good(records))" }
    if let number = PcapHeader.foreignLinkType(error) {
      return "its packets are of \(LinkTypes.unread(number))"
    }
    return "not a packet log: \(file?.advice ?? "\(error)")"
  }

  /// States how many records before the error are good.
  package static func good(_ records: Int) -> String {
    switch records {
    case 0: ""
    case 1: "; the record before is good"
    default: "; the \(records) records before are good"
    }
  }
}
