import BLEWire

/// Tells one submitted command from another; never used twice.
public struct CommandID: Hashable, Sendable {
  let number: UInt64
}

/// The host's commands in order, as many outstanding as the controller gives credit for.
///
/// Core 5.4, Vol 4, Part E, 4.4. Replies are told apart by opcode; of two outstanding commands with one opcode the
/// older is answered first.
struct HCICommandQueue: ~Copyable {
  /// Commands that may wait. Whoever has more is stuck in a loop.
  static let limit = 64
  /// Controllers answer within milliseconds; Linux gives up after two seconds too.
  static let timeout = Duration.seconds(2)

  /// How long a controller may take no command at all: the kernel's HCI_NCMD_TIMEOUT.
  static let creditTimeout = Duration.seconds(4)

  private struct Waiting {
    let id: CommandID
    let opcode: HCIOpcode
    let packet: [UInt8]
  }

  private struct Outstanding {
    let id: CommandID
    let opcode: HCIOpcode
    let deadline: MonotonicTime
  }

  private var waiting: [Waiting] = []
  private var outstanding: [Outstanding] = []
  /// One until the controller says otherwise. Core 5.4, Vol 4, Part E, 4.4.
  private var credits = 1
  /// When a controller that takes no commands, and has none to answer, is given up.
  private var creditDeadline: MonotonicTime?
  private var lastNumber: UInt64 = 0

  /// Queues a command with its H4 type octet.
  ///
  /// - Returns: `nil` where too many wait already.
  mutating func submit(_ opcode: HCIOpcode, parameters: Span<UInt8>) -> CommandID? {
    guard waiting.count < Self.limit else { return nil }
    lastNumber += 1
    let id = CommandID(number: lastNumber)
    let packet = [UInt8](encoding: 1 + HCICommandPacket.maximumByteCount) {
      $0.append(HCIPacketType.command.rawValue)
      HCICommandPacket(opcode: opcode, parameters: parameters).encode(into: &$0)
    }
    waiting.append(Waiting(id: id, opcode: opcode, packet: packet))
    return id
  }

  /// The next command, if the controller takes one now.
  mutating func next(now: MonotonicTime) -> [UInt8]? {
    guard !waiting.isEmpty else { return nil }
    guard credits > 0 else {
      if outstanding.isEmpty, creditDeadline == nil {
        creditDeadline = now.advanced(by: Self.creditTimeout)
      }
      return nil
    }
    credits -= 1
    let command = waiting.removeFirst()
    outstanding.append(
      Outstanding(id: command.id, opcode: command.opcode, deadline: now.advanced(by: Self.timeout)))
    return command.packet
  }

  /// A Command Complete or Command Status has come.
  ///
  /// - Returns: the command it answers; `nil` for one that nobody sent, or a mere change of credits.
  mutating func answered(_ opcode: HCIOpcode, credits: UInt8) -> CommandID? {
    self.credits = Int(credits)
    if credits > 0 { creditDeadline = nil }
    guard let index = outstanding.firstIndex(where: { $0.opcode == opcode }) else { return nil }
    return outstanding.remove(at: index).id
  }

  /// Whether the controller takes a command now, and has none to answer.
  var isIdle: Bool { credits > 0 && outstanding.isEmpty }

  /// When the oldest outstanding command, or the wait for a credit, runs out of time.
  var deadline: MonotonicTime? { outstanding.map { $0.deadline }.min() ?? creditDeadline }

  /// A command that has run out of time; the controller is not to be trusted any more.
  mutating func expired(now: MonotonicTime) -> HCIOpcode? {
    if let late = outstanding.first(where: { $0.deadline <= now }) { return late.opcode }
    guard let creditDeadline, creditDeadline <= now else { return nil }
    return waiting.first?.opcode
  }

  /// Forgets everything: the controller was reset, or is gone.
  mutating func reset() {
    waiting = []
    outstanding = []
    credits = 1
    creditDeadline = nil
  }
}
