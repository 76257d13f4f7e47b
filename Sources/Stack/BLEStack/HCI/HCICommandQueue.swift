import BLEWire

/// Identifies a submitted command; never reused.
public struct CommandID: Hashable, Sendable {
  let number: UInt64
}

/// A FIFO queue of the host's commands. Sends no more commands than the controller has given credits for.
///
/// Core 5.4, Vol 4, Part E, 4.4. Responses are matched by opcode. If two outstanding commands have the same
/// opcode, the response belongs to the older command.
struct HCICommandQueue: ~Copyable {
  /// Maximum number of queued commands. Reached only if a host submits commands in a loop.
  static let limit = 64
  /// Time limit for a response. Controllers respond within milliseconds. Linux also times out after two
  /// seconds.
  static let timeout = Duration.seconds(2)

  /// Maximum time without command credits, like the kernel's HCI_NCMD_TIMEOUT.
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
  /// Number of commands that the controller accepts now; 1 until it reports a number. Core 5.4, Vol 4, Part
  /// E, 4.4.
  private var credits = 1
  /// Time at which to time out a controller that gives no credits although no command is outstanding.
  private var creditDeadline: MonotonicTime?
  private var lastNumber: UInt64 = 0

  /// Queues a command, preceded by its H4 type byte.
  ///
  /// - Returns: `nil` if the queue is full.
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

  /// Returns the next command if the controller can accept a command now.
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

  /// Processes a Command Complete or Command Status.
  ///
  /// - Returns: The command that the event answers; `nil` if it matches no command or only updates the
  ///   credits.
  mutating func answered(_ opcode: HCIOpcode, credits: UInt8) -> CommandID? {
    self.credits = Int(credits)
    if credits > 0 { creditDeadline = nil }
    guard let index = outstanding.firstIndex(where: { $0.opcode == opcode }) else { return nil }
    return outstanding.remove(at: index).id
  }

  /// Whether the controller accepts a command now and none is outstanding.
  var isIdle: Bool { credits > 0 && outstanding.isEmpty }

  /// Earliest timeout, of an outstanding command or of the wait for a credit.
  var deadline: MonotonicTime? { outstanding.map { $0.deadline }.min() ?? creditDeadline }

  /// Returns a command that has timed out. The controller must not be used any more.
  mutating func expired(now: MonotonicTime) -> HCIOpcode? {
    if let late = outstanding.first(where: { $0.deadline <= now }) { return late.opcode }
    guard let creditDeadline, creditDeadline <= now else { return nil }
    return waiting.first?.opcode
  }

  /// Drops all commands, because the controller was reset or removed.
  mutating func reset() {
    waiting = []
    outstanding = []
    credits = 1
    creditDeadline = nil
  }
}
