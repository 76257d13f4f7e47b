import ArgumentParser
import BLEDissector
import BLELinux
import BLEPacketLog
import BLEWire
import CommandKit

extension LogCommand {
  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show",
      abstract: "Print the packets of a log: HCI, L2CAP, SMP, ATT and sensor data.",
      discussion: """
        EXAMPLES
          ringtap log show packets.btsnoop
              each packet in btmon's format: '<' to the controller, '>' from it

          ringtap log show packets.btsnoop --brief --time absolute
              one line per packet: number, time, direction ('<' to the
              controller, '>' from it, '=' note), link, contents

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

        Reads btsnoop (1001, 1002 as from Android, 2001 as from btmon -w), pcap, pcapng and Apple's \
        PacketLogger, also compressed with gzip or zstd. If a log ends within a record, the packets before \
        are shown and the exit status is 1. btmon's notes between the packets (newIndex, systemNote, \
        controlOpen …) are shown too.

        On a terminal, output is coloured unless NO_COLOR is set, and paged with $PAGER, else less.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Flag(help: "Print one JSON object per line.")
    var json = false

    @Flag(help: "Print one line per packet, cut to the terminal's width.")
    var brief = false

    @Option(
      help: """
        Times: relative (seconds since the log's start), absolute (UTC, in the format of --since) or delta \
        (seconds since the packet shown before).
        """)
    var time: PacketPrinter.Times = .relative

    @Flag(name: [.customShort("x"), .customLong("hex")], help: "Print each packet's bytes, too.")
    var hex = false

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
      do {
        var log = try air.open(file)
        let isEmpty = try show(&log, output)
        if let problem = log.problem { throw Failure("\(problem)") }
        if let remark = log.remark ?? log.airReport()?.remark {
          Console.note("\(log.name): \(remark)")
        } else if isEmpty {
          let none =
            log.recordCount == 1
            ? "the only packet does not match" : "none of the \(counted(log.recordCount, "packet")) match"
          Console.note("\(log.name): \(none)")
        }
        if log.isForeign { throw ExitCode.failure }
      } catch let failure as Failure {
        // Print the message before the pager ends.
        Console.note(failure.message)
        throw ExitCode.failure
      }
    }

    func validate() throws {
      if json, brief { throw ValidationError("--brief does not go with --json, which has a line per packet") }
      if json, time != .relative { throw ValidationError("--time does not go with --json; see timeNs") }
      if time == .delta, selection.context > 0 {
        throw ValidationError("--time delta does not go with --context: use relative or absolute")
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

    /// Shows the packets of a log.
    ///
    /// - Returns: true if no packet was shown.
    private func show(_ log: inout LogReader, _ output: LogOutput) throws -> Bool {
      var decoder = PacketDecoder()
      let printer = PacketPrinter(
        style: style, isBrief: brief, showsBytes: hex, times: time, columns: output.columns)
      var view = try PacketView(selection.filter(), printer, context: selection.context)
      var progress = LogProgress(log.isCompressed ? [] : [file], beside: .packets)
      defer { progress.finish() }
      let rest = follow ? try WakeEvent() : nil
      while true {
        // Check this before reading, because the last record may arrive just before the file is replaced.
        let isReplaced = follow && log.isReplaced
        var isMore = true
        while isMore {
          isMore = log.read(to: follow ? .growing : .final) { Self.show($0, &decoder, &view) }
          // Show the valid records before an error.
          try output.write(view.octets)
          view.removeAll()
          progress.update(log.byteCount, records: log.recordCount)
        }
        guard let rest, log.problem == nil else { return view.isEmpty }
        if isReplaced {
          log = try air.open(file)
          Console.note("\(file) was replaced; continuing with the new one")
        } else {
          // An interval of 0.2 s is fast enough for a human reader.
          rest.pause(milliseconds: 200)
        }
      }
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
  }
}

extension PacketPrinter.Times: ExpressibleByArgument {}
