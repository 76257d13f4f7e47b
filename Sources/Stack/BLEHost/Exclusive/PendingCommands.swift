import BLELinux
import BLEStack
import BLEWire

/// Commands submitted to a controller, with the tasks that await their results.
struct PendingCommands {
  private enum Waiter {
    case answer(OneShot<Result<[UInt8], HostError>>)
    case procedure(LinkProcedure, OneShot<Result<HCIHostEvent, HostError>>)

    func fail(_ error: HostError) {
      switch self {
      case .answer(let waiter): waiter.set(.failure(error))
      case .procedure(_, let waiter): waiter.set(.failure(error))
      }
    }
  }

  private var commands: [CommandID: (opcode: HCIOpcode, waiter: Waiter)] = [:]

  var count: Int { commands.count }

  /// Registers a wait for the reply to a command.
  ///
  /// - Returns: A one-shot that is set when the reply arrives.
  mutating func wait(for id: CommandID, _ opcode: HCIOpcode) -> OneShot<Result<[UInt8], HostError>> {
    let waiter = OneShot<Result<[UInt8], HostError>>()
    commands[id] = (opcode, .answer(waiter))
    return waiter
  }

  /// Registers a wait for the end of a procedure that a command starts.
  ///
  /// - Returns: A one-shot that is set when the event at the end of the procedure arrives.
  mutating func wait(
    for id: CommandID, _ opcode: HCIOpcode, endingWith procedure: LinkProcedure
  ) -> OneShot<Result<HCIHostEvent, HostError>> {
    let waiter = OneShot<Result<HCIHostEvent, HostError>>()
    commands[id] = (opcode, .procedure(procedure, waiter))
    return waiter
  }

  mutating func answered(_ id: CommandID, _ status: HCIStatus, _ returned: [UInt8]) {
    guard let (opcode, waiter) = commands[id] else { return }
    // For a procedure, success only means that it has started.
    if status == .success, case .procedure = waiter { return }
    commands[id] = nil
    if status == .success, case .answer(let waiter) = waiter {
      waiter.set(.success(returned))
    } else {
      waiter.fail(.commandRefused(opcode, status))
    }
  }

  /// Sets the result of the matching procedures.
  mutating func end(_ isMeant: (LinkProcedure) -> Bool, _ result: Result<HCIHostEvent, HostError>) {
    for (id, pending) in commands {
      guard case .procedure(let procedure, let waiter) = pending.waiter, isMeant(procedure) else { continue }
      commands[id] = nil
      waiter.set(result)
    }
  }

  mutating func fail(_ error: HostError) {
    for pending in commands.values { pending.waiter.fail(error) }
    commands = [:]
  }
}
