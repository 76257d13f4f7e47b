import ArgumentParser
import BLECore
import BLEPacketLog
import Foundation

/// `ringtap log …`: packet logs.
struct LogCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "log",
    abstract: "Look into packet logs.",
    subcommands: [Show.self, Stats.self])
}

extension LogCommand {
  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show",
      abstract: "Print the packets of a btsnoop log, with their ATT PDUs.",
      discussion: """
        EXAMPLES
          ringtap log show packets.btsnoop
              each packet, as btmon prints it: '<' to the controller, '>' from it

          ringtap log show packets.btsnoop --json
              one object a line: index, timeNs, direction, packetType,
              connectionHandle and, where the packet completes an ATT PDU,
              att with opcode, handle and value

          ringtap log show packets.btsnoop --json | jq 'select(.att.opcode==27)'
              all notifications

          adb exec-out cat /sdcard/btsnoop_hci.log | ringtap log show -
              from standard input

        Reads the btsnoop formats 1001, 1002 (Android) and 2001 (btmon -w). A log
        that ends inside a record is shown up to there; the exit status is 1.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Flag(help: "Print one JSON object a line.")
    var json = false

    func run() throws {
      let input = try open()
      var reader = BTSnoopReader()
      do {
        try show(input, &reader)
        try reader.finish()
      } catch let error as WireError {
        throw failure(
          reader.format == nil
            ? "not a btsnoop log: \(error)" : "\(error); the \(reader.recordCount) records before are good")
      } catch {
        throw failure(reason(error))
      }
    }

    /// Octets read at once: what bounds the memory, with the longest packet.
    private static let chunkByteCount = 65_536

    private func open() throws -> FileHandle {
      if file == "-" { return .standardInput }
      do {
        return try FileHandle(forReadingFrom: URL(filePath: file))
      } catch {
        throw failure("cannot open the log: \(reason(error))")
      }
    }

    private func show(_ input: FileHandle, _ reader: inout BTSnoopReader) throws {
      var decoder = PacketDecoder()
      var printer = PacketPrinter(style: json ? .json : .text)
      while let chunk = try input.read(upToCount: Self.chunkByteCount), !chunk.isEmpty {
        var failure: WireError?
        do throws(WireError) {
          try reader.read(chunk.span) { record in
            decoder.decode(record) { packet in printer.print(packet) }
          }
        } catch {
          failure = error
        }
        // The good records before an error are shown first.
        try FileHandle.standardOutput.write(contentsOf: Data(printer.octets))
        printer.removeAll()
        if let failure { throw failure }
      }
    }

    /// Foundation's errors say in many words what errno says in few.
    private func reason(_ error: any Error) -> String {
      let underlying = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError
      let cause = underlying ?? error as NSError
      return cause.localizedFailureReason ?? cause.localizedDescription
    }

    private func failure(_ message: String) -> ExitCode {
      let line = "ringtap: \(file == "-" ? "standard input" : file): \(message)\n"
      // With standard error gone there is nobody left to tell.
      try? FileHandle.standardError.write(contentsOf: Data(line.utf8))
      return .failure
    }
  }
}
