import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Dialogues
import Foundation
import TestPeer
import Testing

/// Our host and a device that plays a dialogue, at the ends of a virtual link, in virtual time.
struct DialogueLink {
  let loop: EventLoop
  let adapter: HostAdapter
  let emulation: ControllerAttachment
  let session: DialogueSession
  let clock: LoopClock
  /// Number of dialogues that have ended.
  let ended: Counter

  static func open(_ dialogue: ATTDialogue) async throws -> DialogueLink {
    let clock = LoopClock.virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000))
    let loop = try EventLoop.start(clock: clock)
    let ended = Counter()
    let session = DialogueSession([dialogue]) { _ in ended.add() }
    let peripherals: [any VirtualPeripheral] =
      switch dialogue.role {
      case .central: SilentPeripheral.all(session)
      case .peripheral: []
      case nil: [ScriptedPeripheral(session)]
      }
    let controller = VirtualController(
      .init(), peripherals: peripherals, air: VirtualAir.Configuration(pace: .immediate))
    if dialogue.role != nil { controller.play(session) }
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(
      controller, to: pair.takeController(), .datagrams, on: loop)
    let transport = try loop.transport(over: pair.takeHost(), .datagrams)
    let adapter = try await HostAdapter.open(transport, name: "virtual", on: loop)
    return DialogueLink(
      loop: loop, adapter: adapter, emulation: emulation, session: session, clock: clock, ended: ended)
  }

  func connect() async throws -> Connection {
    try await adapter.connect(
      to: ScriptedPeripheral.defaultAddress, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
  }

  func close() async {
    await adapter.close()
    await emulation.detach()
    loop.stop()
  }
}

/// The files of dialogues in the repository.
enum DialogueFiles {
  static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Dialogues")

  static let names = ["discovery", "reads", "writes", "updates", "timeouts"]

  static let all: [ATTDialogue] = names.flatMap { dialogues(of: $0) }

  static func dialogues(of name: String) -> [ATTDialogue] {
    let file = folder.appending(path: name + ".txt")
    do {
      return try ATTDialogueFile(parsing: String(contentsOf: file, encoding: .utf8)).dialogues
    } catch { fatalError("\(file.path): \(error)") }
  }
}

/// A dialogue as the argument of a test, described by its name.
struct NamedDialogue: CustomTestStringConvertible {
  let dialogue: ATTDialogue

  var testDescription: String { "\(dialogue.test) (\(dialogue.name)): \(dialogue.title)" }
}

extension AttributeHandle {
  var text: String {
    let digits = String(rawValue, radix: 16)
    return "0x" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}
