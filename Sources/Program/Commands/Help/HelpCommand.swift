import ArgumentParser
import BLEEmulation
import CommandKit
import JSONText

/// `ringtap help`. Replaces the help command of swift-argument-parser, which has no topics.
struct HelpCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "help",
    abstract: "Print help about a command or a topic.",
    discussion: """
      TOPICS
        modes         ways to use the radio, and which to choose
        permissions   what needs a privilege, and how to avoid root
        formats       files of a capture, and formats for other programs
        outputs       --to: where samples go as they arrive
        link          options of the link and of the receive thread
        virtual       emulated devices, for `virtual:` and emulate
        commands      commands that `ringtap --help` does not list

      EXAMPLES
        ringtap help modes
        ringtap help log show
      """,
    shouldDisplay: false)

  @Argument(help: "A topic, or a command such as 'capture' or 'log show'.")
  var words: [String] = []

  func run() throws {
    if words.count == 1, let topic = HelpTopic(rawValue: words[0]) { return try Console.print(topic.text) }
    var command: any ParsableCommand.Type = Ringtap.self
    for word in words {
      guard let next = command.configuration.subcommands.first(where: { $0._commandName == word }) else {
        throw ValidationError("there is no command or topic '\(words.joined(separator: " "))'")
      }
      command = next
    }
    try Console.print(Ringtap.named(Ringtap.helpMessage(for: command)))
  }
}

/// Help topics that belong to no single command. Lines have at most 79 columns, to fit a terminal of 80.
enum HelpTopic: String, CaseIterable {
  case modes, permissions, formats, outputs, link, virtual, commands

  var text: String {
    switch self {
    case .modes: Self.modesText
    case .permissions: Self.permissionsText
    case .formats: Self.formatsText
    case .outputs: Self.outputsText
    case .link: Self.linkText
    case .virtual: Self.virtualText
    case .commands: Self.commandsText
    }
  }

  private static let modesText = """
    MODES

    raw         Scans on the kernel's HCI raw channel and connects through the
                kernel's L2CAP sockets. Reports every advertisement. bluetoothd
                must not scan at the same time.
    coexist     Scans through the kernel's discovery, alongside bluetoothd, which
                keeps its headphones and keyboards connected. All programs share
                one discovery: a device that has been reported is reported again
                in the next round, up to 10 s later.
    exclusive   Runs ringtap's own host stack on an adapter that is powered off
                (`btmgmt power off`) or on a controller behind a byte stream. You
                control PHY, data length and connection interval; pairing is
                ringtap's own; the kernel's Bluetooth stack is not involved.

    --mode auto, the default, selects coexist if bluetoothd runs and raw if it
    does not, provided that the process has the capabilities. A line on standard
    error reports the selected mode.

    --transport selects exclusive mode and the controller:

      hci-socket:0                       the kernel's hci0, on its user channel
      serial:/dev/ttyAMA0,115200[,flow]  a controller on a serial port
      tcp-client:HOST:PORT, tcp-server:HOST:PORT, unix:PATH, pty:
                                         a controller behind a byte stream
      virtual:ring                       a controller and a device emulated in
                                         this process, without Bluetooth
                                         hardware; `ringtap help virtual`
      replay:FILE[,speed=1x|10x|max][,link=N]
                                         a packet log, replayed

    A link has one ATT channel: raw and coexist mode cannot use a device while
    bluetoothd is connected to it.
    """

  private static let permissionsText = """
    PERMISSIONS

    connect by address (raw, coexist)      none
    scan in raw mode                       CAP_NET_RAW
    scan in coexist mode                   CAP_NET_ADMIN
    exclusive mode on hciN                 CAP_NET_ADMIN
    log record (the kernel's monitor)      CAP_NET_RAW
    --realtime                             CAP_SYS_NICE
    load stored keys into the kernel (raw) root
    virtual:, replay:, byte streams        access to the file or stream

    To run without root, give the capabilities to the executable. Every user who
    can execute it then has them:

      sudo setcap cap_net_raw,cap_net_admin+eip "$(command -v ringtap)"

    To run without any capability, inherit sockets that are already open:

      sudo ringtap open --user-channel hci0 --user "$USER" -- ringtap capture

    To run in a sandbox as a systemd unit, see
    Tools/systemd/ringtap-capture@.service.

    A command drops the capabilities that it does not need when it starts, and
    the rest as soon as its sockets are open. Two keep theirs: a scan in raw mode
    and the daemon, which need them repeatedly. A command that runs as root and
    uses the radio keeps all privileges.

    A seccomp filter keeps commands from executing programs, and commands that
    only use files from opening sockets. RINGTAP_SECCOMP=off disables it.

    `ringtap doctor` reports what is missing on this machine and how to fix it.
    """

  private static let formatsText = """
    FORMATS

    A capture is a directory:

      session.json        device, time, link parameters, losses and their causes
      TABLE.csv           a row per sample: time_ns, the kernel's timestamp in
                          nanoseconds since the Unix epoch, then the values.
                          Column names include the unit. An empty cell was not
                          measured.
      samples.csv         rings only: all streams on the sensor's own clock
      packets.btsnoop     all packets: `ringtap log show`, btmon -r, Wireshark

    capture --format npy         a directory per table, with a NumPy array per
                                 column and columns.json
    capture --log-format pcapng  a packet log with timestamps in nanoseconds
    convert --to csv|npy         the same tables in the other format
    convert --to ndjson          one JSON object per line
    convert --to edf|bdf         EDF+C, BDF+C
    convert --to wfdb            a record for the PhysioNet tools
    report                       an HTML page with plots; --svg and --png write
                                 an image
    log convert                  converts packet logs to btsnoop, pcapng or pcap;
                                 also reads PacketLogger files, and any of these
                                 compressed with gzip or zstd

    Commands print one line per item to standard output; with --json each line is
    a JSON object. Exit status: 0 success, 1 failure, 2 wrong usage, 3 complete
    but samples were lost, 4 complete but an output did not confirm all of it,
    130 interrupted. After a signal a command ends within a second, and its
    files are complete.
    """

  private static let outputsText = """
    OUTPUTS

    `capture` sends samples elsewhere as they arrive. --to may be given several
    times:

      -                      lines of JSON on standard output; messages go to
                             standard error, and the live view is off
      unix:PATH              the same lines, for readers of the same user:
                             socat -u UNIX-CONNECT:PATH -
      tcp:HOST:PORT          the same lines for anyone who can reach the address,
                             unencrypted: use 127.0.0.1
      ws://:PORT             the same lines as a WebSocket, one in a message, for
                             programs of this machine, and a page of live plots at
                             http://127.0.0.1:PORT/. With ws://HOST:PORT for anyone
                             who can reach the address, unencrypted
      lsl:                   a stream of the Lab Streaming Layer per table, which
                             every host on the network can receive. Needs liblsl;
                             RINGTAP_LIBLSL is its path if it is not found
      osc://HOST:PORT        Open Sound Control over UDP, for programs of music and
                             pictures: /ring/70-CB-0D-00-A1-B2/ppg with the values
                             of a row; /ring/…/link "lost" or "back", /ring/…/end
      mqtt[s]://[USER@]HOST[:PORT][/PREFIX]
                             to every `ringtap collect` at this broker
      mqtt[s]://…?as=home-assistant
                             battery, pulse, steps and more in Home Assistant
      influx+http[s]://HOST:PORT/PATH[?PARAMETERS]
                             rows for InfluxDB or VictoriaMetrics, such as
                             influx+http://localhost:8428/write

    Parameters, after ? and separated by & (quote the URL in a shell):

      origin=ORIGIN          ws: the origin of another page that may read, such as
                             http://localhost:3000
      ca=FILE                the CA certificate (PEM) for mqtts and https
                             (default: the system's)
      password-file=FILE     mqtt: the first line is the password (default:
                             RINGTAP_MQTT_PASSWORD in the environment)
      name=NAME              collectors: the publisher's name (default: the names
                             of this machine and the device)
      backlog=SIZE           collectors: skip the oldest rows if more than this
                             are queued in a table, such as 10M (default: 1G)
      patience=SECONDS       collectors: at the end, how long to continue without
                             progress and to wait for receipts (default: 10)
      token-file=FILE        influx: the first line is the token (default:
                             RINGTAP_INFLUX_TOKEN in the environment)

    A ring's values are in a table per stream (ppg, accelerometer, spo2) and, up to
    8 s later, all together in samples, a row per tick of the ring's clock. --to
    sends the tables; with --rows ticks it sends samples instead, with --rows all
    both. Collectors and Home Assistant do not depend on --rows.

    A slow reader loses lines and gets a line with their number; the recording is
    not affected. A recording that has --to - and no other purpose (no --output,
    --duration, --count or other --to) ends when its reader ends.

      ringtap capture --output walk --to unix:samples --to lsl:
      ringtap capture --to ws://:8080
      ringtap capture --output walk --to 'mqtts://nurse@broker.local?ca=ca.pem'
    """

  /// The options of `LinkOptions` and `ReceiveThreadOptions`, as the parser prints them.
  private static var linkText: String {
    let help = LinkTopic.helpMessage(includeHidden: true, columns: 80)
    let options = help.split(separator: "\n", omittingEmptySubsequences: false).drop {
      !$0.hasPrefix("OPTIONS:")
    }
    let rest = options.dropFirst().filter { !$0.hasPrefix("  --version") && !$0.hasPrefix("  -h, --help") }
    return linkIntroduction + rest.joined(separator: "\n")
  }

  private static let linkIntroduction = """
    LINK

    Commands that connect to a device take these options for the link, and those
    that record or measure a stream also --spin, --cpu and --realtime for the
    thread that receives it. `ringtap link ADDRESS` shows what a link got, and
    `ringtap bench sweep ADDRESS` measures what each setting is worth.


    """

  private static var virtualText: String {
    var text = virtualIntroduction
    var kinds: [VirtualOption.Kind] = []
    for option in VirtualOption.all {
      if option.kinds != kinds {
        kinds = option.kinds
        let names =
          kinds == VirtualOption.Kind.allCases ? "every kind" : kinds.map(\.rawValue).joined(separator: ", ")
        text += "\n\n\(names):\n"
      }
      text += "\n" + inColumns(option.text, option.meaning)
    }
    return text
  }

  private static let virtualIntroduction = """
    VIRTUAL

    A device emulated without Bluetooth hardware: in this process by --transport
    virtual:DEVICE, or for other programs by `ringtap emulate DEVICE`. DEVICE is a
    kind, then options in any order, separated by commas; + joins several devices
    in range of each other. With emulate, options may also be --option VALUE.

      ringtap capture --transport virtual:ring,rate=75,motion=run,real-time
      ringtap emulate ring,rate=75+heart-rate --real-time --vhci

    Kinds: \(VirtualOption.Kind.allCases.map(\.rawValue).joined(separator: ", ")).
    N is a number, P a number from 0 to 1. Without options for the wearer, a ring
    is worn at rest with exactly 72 beats per minute. Defaults are in parentheses.
    """

  /// Returns lines with a term and its explanation, at most 79 columns wide.
  private static func inColumns(_ term: String, _ meaning: String) -> String {
    let (indent, width) = (24, 79)
    var lines = ["  " + term + String(repeating: " ", count: max(2, indent - 2 - term.count))]
    for word in meaning.split(separator: " ") {
      let last = lines[lines.count - 1]
      let isFirst = last.hasSuffix(" ")
      if last.count + word.count + (isFirst ? 0 : 1) > width {
        lines.append(String(repeating: " ", count: indent) + word)
      } else {
        lines[lines.count - 1] += (isFirst ? "" : " ") + word
      }
    }
    return lines.joined(separator: "\n")
  }

  private static let commandsText = """
    COMMANDS

    `ringtap --help` lists the common commands. Others:

      heart-rate, thermometer, cycling, polar
                    print the values of a sensor; `ringtap capture KIND` records
      adapters      lists the Bluetooth adapters
      status        shows the status of the daemon
      decode        decodes values, and packets of a ring, one JSON object per
                    line
      open          opens privileged sockets, drops all privileges, and runs a
                    command that inherits the sockets
      extcap        captures live in Wireshark and tshark, which start it

    Each has --help.
    """
}

/// A placeholder command whose help lists the options of the topic `link`.
private struct LinkTopic: ParsableCommand {
  @OptionGroup var link: LinkOptions
  @OptionGroup var thread: ReceiveThreadOptions
}

/// Suggests the right word for a misspelt command or other word.
enum CommandGuess {
  /// Returns an error message for an unknown command.
  ///
  /// - Parameter word: the first word of a command line.
  /// - Returns: the error message; `nil` if the word is a command or an option.
  static func refusal(of word: String, among commands: [any ParsableCommand.Type]) -> String? {
    let names = commands.flatMap { command in
      [command.configuration.commandName].compactMap(\.self) + command.configuration.aliases
    }
    guard !word.hasPrefix("-"), !names.contains(word) else { return nil }
    return "'\(word.printable)' is not a command"
      + (nearest(to: word, among: names).map { "; did you mean '\($0)'?" }
        ?? "; `ringtap --help` lists all commands")
  }

  /// Returns the name that differs from a word by at most two letters; `nil` if no name does.
  static func nearest(to word: String, among names: [String]) -> String? {
    names.map { (name: $0, steps: steps(from: word, to: $0)) }.filter { $0.steps <= 2 }
      .min { $0.steps < $1.steps }?.name
  }

  /// Returns the edit distance: the number of letters to insert, remove or change (V. Levenshtein, 1965).
  static func steps(from word: String, to other: String) -> Int {
    let other = Array(other)
    var row = Array(0...other.count)
    for (place, letter) in word.enumerated() {
      var diagonal = row[0]
      row[0] = place + 1
      for (index, wanted) in other.enumerated() {
        let change = diagonal + (letter == wanted ? 0 : 1)
        diagonal = row[index + 1]
        row[index + 1] = min(change, row[index] + 1, diagonal + 1)
      }
    }
    return row[other.count]
  }
}
