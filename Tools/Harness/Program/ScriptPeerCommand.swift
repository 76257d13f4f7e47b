import ArgumentParser
import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import CommandKit
import Commands
import Dialogues
import JSONText
import RingTap
import Synchronization

/// `harness script-peer FILE`.
struct ScriptPeerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "script-peer",
    abstract: "Play the server side of ATT dialogues to test a client.",
    discussion: """
      Runs a device behind a virtual controller. Each link plays the next dialogue of the file, or continues a dialogue that \
      ended its previous link. The command ends after the last dialogue. It prints a line for each dialogue. If the client's \
      PDUs differ, the line has the first difference, and the exit status is 1.

      FILE is a text file. A number sign starts a comment line; indentation is ignored.
        database NAME                 starts a database; its attributes follow in order:
          0x0001-0x0004 2800 0118       a service: range, type, value as on the air
          0x0002 2803 02 0300 002a      any other attribute: handle, type, value
        dialogue NAME                 starts a dialogue; the following lines belong to it:
          test ID, title TEXT           identifier and title, for people
          mtu 512                       the peer's receive MTU (default: 23)
          with DATABASE [values]        answer discovery in any order; with values, reads too
          action TEXT, expect TEXT      what the client must do; for people
          > 0a0300                      the client's next PDU, in hexadecimal
          < 0b 010203                   a PDU from the peer, as the answer or unsolicited
          <+ 0108010000                 the same, sent before the answer to the next PDU
          leave                         the peer disconnects; the rest is for the next link
          >* 02                         each PDU that begins like this gets the following PDUs,
                                        unless a step waits for it; `usual` is the answer
                                        that it would get otherwise
      In a PDU of the client, `..` is any byte. `ff*20` is twenty bytes ff. `|` separates alternatives, and the answers to them in \
      the same order. A step with `>?`, and everything after it, may be missing. A step with `>~` may arrive later. MTU exchanges \
      are answered separately from the steps, and no PDU is longer than the agreed MTU.

      An attack is a dialogue with `role central` or `role peripheral`, the role of the attacked host. That \
      host sends the packets with `>`; its controller and the peers send those with `<`. Further steps:
        < l2cap 0006 0b01             an L2CAP frame on this channel
        < acl 2040 0700 0400 0a       an ACL packet: flags and handle, data
                                      (the length is added)
        < event 05 00 4000 13         an event: code, parameters (the length is added)
        < octets 04 0e ff             any bytes, starting with the H4 type
        > l2cap 0005 01..             an L2CAP frame from the host
        > command 0406 4000 ..        a command from the host; parameters are optional
        on 0041                       the link of the following steps (first link: 0040)
        after 043e 13 01              wait for a packet from the controller that begins
                                      like this
        once 040e0701 0220 | 040f     replace the next packet that begins like this;
                                      nothing after `|` drops it, `&` is the rest of
                                      the original
        instead 040f | & | &          the same, for every such packet
        source, fault, duty TEXT      the publisher, the host's error, the correct
                                      behaviour

      EXAMPLES
        harness script-peer read.txt --transport unix:/tmp/peer
        ringtap read \(ScriptedPeripheral.defaultAddress) 0x0003 --transport unix:/tmp/peer
            in another terminal, while the command above runs
        sudo harness script-peer all.txt --dialogue write --vhci --json
            one object per line: event (ready, dialogue, end), name, test, passed,
            line, expected, found
      """)

  @Argument(help: "The file with the dialogues.", completion: .file()) var file: String

  @Option(help: ArgumentHelp("Play only this dialogue; may be repeated.", valueName: "name"))
  var dialogue: [String] = []

  @OptionGroup var options: EmulationOptions

  func validate() throws {
    guard options.transport.count <= 1 else { throw ValidationError("give only one --transport") }
  }

  func run() async throws {
    let dialogues = try read()
    guard Set(dialogues.map(\.role)).count == 1 else {
      throw Failure("\(file) has dialogues for centrals and for peripherals: choose one with --dialogue")
    }
    let (outcomes, continuation) = AsyncStream.makeStream(of: DialogueSession.Outcome.self)
    let session = DialogueSession(dialogues) { continuation.yield($0) }
    let options = options
    let printer = Task {
      for await outcome in outcomes { try show(outcome) }
    }
    do {
      try await Interruption.cancelling { try await ScriptedAir(session: session, options: options).run() }
    } catch is CancellationError {
      // `end` reports the dialogues that were not played.
    }
    continuation.finish()
    try await printer.value
    try end(session.outcomes, of: dialogues.count)
  }

  private func read() throws -> [ATTDialogue] {
    let text: String
    do throws(SystemError) {
      text = String(decoding: try WrittenFile.octets(of: file, limit: 1 << 24), as: UTF8.self)
    } catch {
      throw Failure("cannot read \(file): \(error); see `harness script-peer --help`")
    }
    let parsed: ATTDialogueFile
    do throws(ATTDialogueError) { parsed = try ATTDialogueFile(parsing: text) } catch {
      throw Failure("\(file): \(error)")
    }
    guard !dialogue.isEmpty else { return parsed.dialogues }
    return try dialogue.map { name in
      guard let found = parsed.dialogues.first(where: { $0.name == name }) else {
        let names = parsed.dialogues.prefix(10).map(\.name).joined(separator: ", ")
        throw Failure(
          "\(file) has no dialogue \(name); it has \(names)\(parsed.dialogues.count > 10 ? ", …" : "")")
      }
      return found
    }
  }

  // MARK: Lines

  private func show(_ outcome: DialogueSession.Outcome) throws(Console.WriteError) {
    guard options.json else {
      return try Console.print(
        outcome.mismatch.map { "failed \(outcome.name.printable): \($0)" }
          ?? "passed \(outcome.name.printable)")
    }
    try Console.json { line in
      line.member("event", "dialogue")
      line.member("name", outcome.name)
      line.member("test", outcome.test)
      line.member("passed", outcome.mismatch == nil)
      guard let mismatch = outcome.mismatch else { return }
      if let number = mismatch.line { line.member("line", number) }
      line.member(
        "expected",
        array: { line in
          for pdu in mismatch.expected { line.value(pdu) }
        })
      if let found = mismatch.found { line.member("found", found) }
    }
  }

  private func end(_ outcomes: [DialogueSession.Outcome], of count: Int) throws {
    let failed = outcomes.count { $0.mismatch != nil }
    if options.json {
      try Console.json { line in
        line.member("event", "end")
        line.member("passed", outcomes.count - failed)
        line.member("failed", failed)
        line.member("notPlayed", count - outcomes.count)
      }
    }
    if failed > 0 { throw Failure("\(failed) of \(counted(count, "dialogue")) failed") }
    if outcomes.count < count {
      let missing = count - outcomes.count
      throw Failure(
        "\(missing) of \(counted(count, "dialogue")) \(missing == 1 ? "was" : "were") not played")
    }
  }
}

/// The virtual controller with its device. Both end after the last dialogue.
private struct ScriptedAir: Sendable {
  let session: DialogueSession
  let options: EmulationOptions

  func run() async throws {
    if options.vhci > 0 {
      let emulation = try await ControllerAttachment.attach(controller, to: VHCI())
      try ready("hci\(emulation.index ?? 0)")
      return await play(emulation)
    }
    var name = ""
    let specification = try options.specifications()[0]
    let server = try failing { () throws(HostError) in try StreamServer(specification) { name = $0 } }
    try ready(name)
    // Each host gets a freshly reset controller.
    while !session.isOver {
      let peer = try await failing { () async throws(HostError) in try await server.next() }
      let emulation = try await failing { () async throws(SystemError) in
        try await ControllerAttachment.attach(controller, to: peer.take(), .stream)
      }
      await play(emulation)
      try Task.checkCancellation()
    }
  }

  private var controller: VirtualController {
    guard let role = session.role else {
      return VirtualController(
        options.controller(0), peripherals: [ScriptedPeripheral(session)], air: options.air)
    }
    let controller = VirtualController(
      options.controller(0), peripherals: role == .central ? SilentPeripheral.all(session) : [],
      air: options.air)
    controller.play(session, .leaves)
    return controller
  }

  /// Runs until the last dialogue ends, the host closes the transport, or the task is cancelled.
  private func play(_ emulation: ControllerAttachment) async {
    Task {
      await session.over()
      await emulation.detach()
    }
    await emulation.runUntilCancelled()
    // If the host has closed the transport without disconnecting, end its link.
    await emulation.inspect { controller in
      for peripheral in controller.peripherals { (peripheral as? ScriptedPeripheral)?.end() }
    }
    if session.role != nil { session.finish() }
  }

  private func ready(_ name: String) throws(Console.WriteError) {
    let address = ScriptedPeripheral.defaultAddress
    guard options.json else { return try Console.print("ready \(name) \(address) script") }
    try Console.json { line in
      line.member("event", "ready")
      line.member("adapter", name)
      line.member("address", address.description)
      line.member("addressType", address.type.name.description)
      line.member("name", "script")
    }
  }
}
