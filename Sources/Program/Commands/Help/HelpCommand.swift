import ArgumentParser
import CommandKit

/// `ringtap help`. Replaces swift-argument-parser's own help command, because it also has topics.
struct HelpCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "help",
    abstract: "Print help about a command or a topic.",
    discussion: """
      TOPICS
        modes         the ways to the radio, and which to take
        permissions   what needs a privilege, and how to do without root
        formats       what a capture consists of, and what other programs can have
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
        throw ValidationError("no command and no topic '\(words.joined(separator: " "))'")
      }
      command = next
    }
    try Console.print(Ringtap.named(Ringtap.helpMessage(for: command)))
  }
}

/// Help that belongs to no single command. Lines have at most 79 columns, to fit a terminal of 80.
enum HelpTopic: String, CaseIterable {
  case modes, permissions, formats, commands

  var text: String {
    switch self {
    case .modes: Self.modesText
    case .permissions: Self.permissionsText
    case .formats: Self.formatsText
    case .commands: Self.commandsText
    }
  }

  private static let modesText = """
    MODES

    raw         Scans on the kernel's HCI raw channel and connects by its L2CAP
                socket. Each report of each advertiser; bluetoothd must not scan
                meanwhile.
    coexist     Scans through the kernel's own discovery, beside bluetoothd, which
                keeps its headphones and keyboards connected. One discovery for
                everybody: a device that was reported waits for the next round, up
                to 10 s.
    exclusive   Our own host on an adapter that is down (`btmgmt power off`), or on
                a controller at a byte stream. PHY, data length and interval under
                control, own pairing, no kernel in between.

    --mode auto, the default, is coexist where bluetoothd runs and raw where it does
    not, as far as the capabilities reach. A line on standard error says which.

    --transport takes exclusive mode and says where the controller is:

      hci-socket:0                       the kernel's hci0, by its user channel
      serial:/dev/ttyAMA0,115200[,flow]  at a serial port
      tcp-client:HOST:PORT, tcp-server:HOST:PORT, unix:PATH, pty:
                                         behind a byte stream
      virtual:ring                       emulated in this process: no Bluetooth
                                         needed; also virtual:heart-rate,
                                         virtual:thermometer, virtual:core,
                                         virtual:cycling, virtual:polar,
                                         virtual:source
      replay:FILE                        a packet log stands in its place

    One link has one ATT channel: a device that bluetoothd has connected is busy for
    raw and coexist mode.
    """

  private static let permissionsText = """
    PERMISSIONS

    to connect by address (raw, coexist)   nothing
    to scan in raw mode                    CAP_NET_RAW
    to scan in coexist mode                CAP_NET_ADMIN
    exclusive mode on hciN                 CAP_NET_ADMIN
    log record (the kernel's monitor)      CAP_NET_RAW
    --realtime                             CAP_SYS_NICE
    stored keys back to the kernel (raw)   root
    virtual:, replay:, byte streams        nothing but the stream's own rights

    Without root, for whoever may execute the file:

      sudo setcap cap_net_raw,cap_net_admin+eip "$(command -v ringtap)"

    With sockets that somebody else has opened; this process has no capability:

      sudo ringtap open --user-channel hci0 --user "$USER" -- ringtap capture

    As a unit of systemd's in a sandbox: Tools/systemd/ringtap-capture@.service.

    What a command does not need it gives up before anything else, and the rest once
    its sockets are open; only a scan in raw mode, and a daemon, keep what they ask
    for again and again. Root keeps all where a radio is reached. No command can
    execute a program (seccomp), nor open a socket where it only reads files;
    RINGTAP_SECCOMP=off leaves that filter away.

    `ringtap doctor` tells what is missing on this machine, and what to type.
    """

  private static let formatsText = """
    FORMATS

    A capture is a directory:

      session.json        what, when, link parameters, what was lost and why
      TABLE.csv           a row for each sample: time_ns, the kernel's stamp in
                          nanoseconds since the Unix epoch, and its values, units in
                          the names of the columns; an empty cell was not measured
      samples.csv         of a ring: all streams on the sensor's own clock
      packets.btsnoop     all packets: `ringtap log show`, btmon -r, Wireshark

    capture --format npy         a folder for each table, a NumPy array for each
                                 column, and columns.json
    capture --log-format pcapng  packet log with nanoseconds
    convert --to csv|npy         the same tables in the other form
    convert --to ndjson          a JSON object a line
    convert --to edf|bdf         EDF+C, BDF+C
    convert --to wfdb            a record for PhysioNet's tools
    report                       a page with plots; --svg and --png a picture
    log convert                  packet logs into btsnoop, pcapng or pcap; reads
                                 PacketLogger's, too, and gzip and zstd of all

    Text on standard output is a line for each thing; with --json a line is a JSON
    object. Exit status: 0 done, 1 failed, 2 wrong usage, 3 completed but with loss,
    4 completed but not all published.
    """

  private static let commandsText = """
    COMMANDS

    `ringtap --help` lists the common commands. Others:

      decode        decodes characteristic values, one JSON object per line
      open          opens privileged sockets, drops all privileges, and runs a
                    command that inherits the sockets
      extcap        captures live in Wireshark and tshark, which start it
      script-peer   plays the server side of ATT dialogues to test a client

    Each has --help.
    """
}
