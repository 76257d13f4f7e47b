package import BLELinux
package import BLEPacketLog
package import BLEWire

/// Why a log cannot be read, or not to its end, in the words of all commands.
package enum LogProblem {
  package static func name(_ path: String) -> String { path == "-" ? "standard input" : path }

  /// The file cannot be opened, or is none.
  package static func text(_ error: SystemError) -> String {
    "cannot open the log: \("\(error)".dropFirst(error.call.utf8.count + 2))"
  }

  /// - Parameters:
  ///   - format: `nil` where it was never found out.
  ///   - file: what a file without format seems to be.
  ///   - records: those before.
  package static func text(
    _ error: WireError, _ format: PacketLogFormat?, _ file: ForeignFile?, records: Int
  ) -> String {
    guard format == nil else { return "\(error)\(good(records))" }
    if let number = PcapHeader.foreignLinkType(error) {
      return "its packets are of \(LinkTypes.unread(number))"
    }
    return "not a packet log: \(file?.advice ?? "\(error)")"
  }

  /// What can be trusted all the same.
  package static func good(_ records: Int) -> String {
    switch records {
    case 0: ""
    case 1: "; the record before is good"
    default: "; the \(records) records before are good"
    }
  }
}
