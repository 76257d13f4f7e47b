import ArgumentParser
import BLEDissector
import BLELinux
import BLEPacketLog
import BLEWire
import CommandKit
import Recording

extension LogCommand {
  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show",
      abstract: "Print the packets of a log: HCI, L2CAP, SMP, ATT and sensor data.",
      discussion: """
        EXAMPLES
          ringtap log show packets.btsnoop
              each packet in btmon's format: '<' to the controller, '>' from it

          ringtap log show packets.btsnoop --att-opcode notification --attribute 2a37
              the heart rates

          ringtap log show packets.btsnoop --since 12.5 --until 14 --context 3
              a second and a half; packets around each match, '--' between groups

          ringtap log show packets.btsnoop --json | jq 'select(.att.opcode==27)'
              one object per line: index, timeNs, direction, packetType, adapter,
              connectionHandle; opcode, event, subevent and status, with names;
              l2cap, smp; att with opcode, handle, uuid, value and, in decoded, the
              decoded value in the format of 'ringtap decode'; parameters of
              commands, events, signals and SMP by name, with units at the key's
              end (connectionIntervalMs, maxTxTimeUs, txPowerDbm), words in a second
              key (roleName); unnamed data as bytes

          ringtap log show packets.btsnoop --follow
              continues as the log grows, also when another file replaces it, until
              Ctrl-C

          adb exec-out cat /sdcard/btsnoop_hci.log | ringtap log show -
              reads standard input

          ringtap log show sniffer.pcapng --ltk 7f62c053f104a5bbe68b1d896a2ed49c
              the traffic that a sniffer heard on the air (link types 192, 251, 256,
              272), as HCI packets of the central's host; in JSON, 'air' has channel,
              rssi, eventCounter, crcGood, isRetransmission, isDecrypted. The keys of
              a legacy pairing in the log are derived automatically

        Reads btsnoop (1001, 1002 as from Android, 2001 as from btmon -w), pcap, pcapng \
        and Apple's PacketLogger, also compressed with gzip or zstd. A log that ends \
        within a record is shown up to there; the exit status is 1. btmon's notes \
        between the packets (newIndex, systemNote, controlOpen …) are shown too.

        On a terminal, output is coloured, unless NO_COLOR is set, and paged with $PAGER, \
        else less.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Flag(help: "Print one JSON object per line.")
    var json = false

    @OptionGroup(title: "Which packets") var selection: LogSelection

    @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

    @Flag(help: "Continue as the file grows.")
    var follow = false

    @Flag(help: "Do not start a pager.")
    var noPager = false

    @Option(help: "Colour: auto (on a terminal), always or never.")
    var color: ColorChoice = .auto

    enum ColorChoice: String, ExpressibleByArgument, CaseIterable { case auto, always, never }

    func run() throws {
      let isPaged = !noPager && !json && !follow && (file == "-" || Files.exists(file))
      let output = LogOutput(isPaged: isPaged)
      defer { output.finish() }
      Confinement.filterFiles()
      var input: CompressedInput
      do throws(SystemError) { input = try CompressedInput(path: file) } catch {
        throw failure(LogProblem.text(error))
      }
      var reader = AnyLogReader(keys: air.keys)
      do {
        let isEmpty = try show(&input, &reader, output)
        try tell(reader.remark ?? reader.airReport()?.remark, isEmpty, reader.isForeign, reader.recordCount)
      } catch let code as ExitCode {
        throw code
      } catch let error as WireError {
        throw failure(LogProblem.text(error, reader.format, reader.foreignFile, records: reader.recordCount))
      } catch let error as CompressedInput.Problem {
        throw failure("\(error)\(LogProblem.good(reader.recordCount))")
      } catch let error as Console.WriteError {
        throw error
      } catch {
        throw failure("\(error)")
      }
    }

    private var style: PacketPrinter.Style {
      if json { return .json }
      return switch color {
      case .always: .coloredText
      case .never: .text
      case .auto: LogOutput.wantsColor ? .coloredText : .text
      }
    }

    /// Prints what was not shown, and why.
    private func tell(_ remark: String?, _ isEmpty: Bool, _ isForeign: Bool, _ records: Int) throws {
      if let remark {
        Console.note("\(LogProblem.name(file)): \(remark)")
      } else if isEmpty {
        Console.note("\(LogProblem.name(file)): none of the \(records) packets match")
      }
      if isForeign { throw ExitCode.failure }
    }

    /// - Returns: whether nothing was shown.
    private func show(
      _ input: inout CompressedInput, _ reader: inout AnyLogReader, _ output: LogOutput
    ) throws -> Bool {
      var decoder = PacketDecoder()
      var view = try PacketView(
        selection.filter(), style: style, context: selection.context, columns: output.columns)
      var progress = LogProgress(input.isCompressed ? [] : [file], beside: .packets)
      defer { progress.finish() }
      let rest = follow ? try WakeEvent() : nil
      while let chunk = try next(&input, &reader, rest) {
        var failure: WireError?
        do throws(WireError) {
          try read(chunk, &reader, &decoder, &view)
        } catch {
          failure = error
        }
        // Show the valid records before an error.
        try output.write(view.octets)
        view.removeAll()
        progress.advance(chunk.count, records: reader.recordCount)
        if let failure { throw failure }
      }
      var failure: WireError?
      do throws(WireError) {
        try reader.finish { Self.show($0, &decoder, &view) }
      } catch {
        failure = error
      }
      try output.write(view.octets)
      if let failure { throw failure }
      return view.isEmpty
    }

    private static func show(
      _ record: borrowing PacketRecord, _ decoder: inout PacketDecoder, _ view: inout PacketView
    ) {
      view.note(record.time)
      if record.type == nil {
        if record.note != nil || record.header.air != nil { view.take(note: record) }
      } else {
        decoder.decode(record) { packet in view.take(packet) }
      }
    }

    /// The next bytes of the file, `nil` at its end.
    ///
    /// - Parameter rest: used to wait for more; `nil` without --follow.
    private func next(
      _ input: inout CompressedInput, _ reader: inout AnyLogReader, _ rest: WakeEvent?
    ) throws -> [UInt8]? {
      while true {
        let isReplaced = rest != nil && file != "-" && input.isReplaced(at: file)
        // Read after that check: the last record may have arrived just before the file was replaced.
        let chunk = try input.next()
        if !chunk.isEmpty { return chunk }
        guard let rest else { return nil }
        if isReplaced {
          input = try CompressedInput(path: file)
          reader = AnyLogReader(keys: air.keys)
          Console.note("\(file) was replaced; continuing with the new one")
          continue
        }
        // A fifth of a second is fast enough for a human reader.
        rest.pause(milliseconds: 200)
      }
    }

    /// Parses a chunk. The only place that depends on the reader.
    private func read(
      _ chunk: [UInt8], _ reader: inout AnyLogReader, _ decoder: inout PacketDecoder,
      _ view: inout PacketView
    ) throws(WireError) {
      try reader.read(chunk.span) { Self.show($0, &decoder, &view) }
    }

    private func failure(_ message: String) -> ExitCode {
      Console.note("\(LogProblem.name(file)): \(message)")
      return .failure
    }
  }
}
