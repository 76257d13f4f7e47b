import ArgumentParser
import BLECore
import BLEPacketLog
import Foundation

extension LogCommand {
  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show",
      abstract: "Print the packets of a log: HCI, L2CAP, SMP, ATT and what sensors say.",
      discussion: """
        EXAMPLES
          ringtap log show packets.btsnoop
              each packet, as btmon prints it: '<' to the controller, '>' from it

          ringtap log show packets.btsnoop --att-opcode notification --attribute 2a37
              the heart rates

          ringtap log show packets.btsnoop --since 12.5 --until 14 --context 3
              a second and a half; packets around each match, '--' between groups

          ringtap log show packets.btsnoop --json | jq 'select(.att.opcode==27)'
              one object a line: index, timeNs, direction, packetType, adapter,
              connectionHandle; opcode, event, subevent and status, with names;
              l2cap, smp; att with opcode, handle, uuid and value

          ringtap log show packets.btsnoop --follow
              and goes on as the log grows, until Ctrl-C

          adb exec-out cat /sdcard/btsnoop_hci.log | ringtap log show -
              from standard input

        Reads the btsnoop formats 1001, 1002 (Android) and 2001 (btmon -w). A log
        that ends inside a record is shown up to there; the exit status is 1.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Flag(help: "Print one JSON object a line.")
    var json = false

    @OptionGroup(title: "Which packets") var selection: LogSelection

    @Flag(help: "Go on as the file grows.")
    var follow = false

    @Flag(help: "Do not start a pager.")
    var noPager = false

    @Option(help: "Colour: auto, always or never.")
    var color: ColorChoice = .auto

    enum ColorChoice: String, ExpressibleByArgument, CaseIterable { case auto, always, never }

    func run() throws {
      let input = try open()
      let isPaged = !noPager && !json && !follow
      let output = LogOutput(isPaged: isPaged)
      defer { output.finish() }
      var reader = PacketLogReader()
      do {
        try show(input, &reader, output)
        // A log that is still written may end anywhere.
        try reader.finish()
      } catch let error as WireError {
        throw failure(
          reader.format == nil
            ? "not a packet log: \(error)" : "\(error); the \(reader.recordCount) records before are good")
      } catch let error as Console.Closed {
        throw error
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

    private var style: PacketPrinter.Style {
      if json { return .json }
      return switch color {
      case .always: .coloredText
      case .never: .text
      case .auto: LogOutput.isTerminal ? .coloredText : .text
      }
    }

    private func show(_ input: FileHandle, _ reader: inout PacketLogReader, _ output: LogOutput) throws {
      var decoder = PacketDecoder()
      var view = try PacketView(selection.filter(), style: style, context: selection.context)
      var progress = LogProgress(input)
      while let chunk = try next(input, reader.format == nil) {
        var failure: WireError?
        do throws(WireError) {
          try read(chunk, &reader, &decoder, &view)
        } catch {
          failure = error
        }
        // The good records before an error are shown first.
        try output.write(view.octets)
        view.removeAll()
        progress.advance(chunk.count, records: reader.recordCount)
        if let failure { throw failure }
      }
      progress.finish()
    }

    /// The next octets of the file, `nil` at its end. The header comes alone, so that the format is known before the
    /// first record.
    private func next(_ input: FileHandle, _ isStart: Bool) throws -> Data? {
      let count = isStart ? BTSnoopHeader.byteCount : Self.chunkByteCount
      while true {
        if let chunk = try input.read(upToCount: count), !chunk.isEmpty { return chunk }
        guard follow else { return nil }
        // Five times a second is soon enough for eyes; a semaphore that nobody signals is a pause.
        _ = DispatchSemaphore(value: 0).wait(timeout: .now() + .milliseconds(200))
      }
    }

    /// Where the file's octets become records: the only place that knows the reader.
    private func read(
      _ chunk: Data, _ reader: inout PacketLogReader, _ decoder: inout PacketDecoder, _ view: inout PacketView
    ) throws(WireError) {
      let hasNotes = reader.format == .monitor
      try reader.read(chunk.span) { record in
        view.note(record.time)
        if record.type == nil {
          if hasNotes { view.take(note: record) }
        } else {
          decoder.decode(record) { packet in view.take(packet) }
        }
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
