public import BLEWire

/// A fault in a controller's behaviour towards its host.
public enum ControllerFault: Hashable, Sendable {
  /// Refuses this command with this status, this number of times; `nil` for always.
  case refuse(HCIOpcode, HCIStatus, times: Int?)
  /// Stops responding to the host. The host's next command times out.
  case silence
  /// Stops responding until the host resets it: HCI Reset ends this fault, and its links are lost.
  case silenceUntilReset
  /// Sends Hardware Error with this code immediately. The host must reset the controller, and all links are
  /// lost. Core 5.4, Vol 4, Part E, 7.7.16.
  case hardwareError(UInt8)
  /// Restarts immediately, as after a power failure: loses links, masks and lists, and sends only this HCI
  /// event (code and length first; empty for no event). The host must detect the restart.
  case restart(announcedBy: [UInt8])
  /// Never sends Number Of Completed Packets. The host must stop sending when it has used all buffers that
  /// the controller reported.
  case withholdCompletedPackets
  /// Sends this number of replies with a wrong opcode. The real commands are never answered.
  case wrongOpcode(times: Int)
  /// Before each of this number of ACL packets, sends a copy with an unknown handle. Before each Number Of
  /// Completed Packets, sends a report for that handle. The host must drop the copies and these reports.
  case staleHandle(times: Int)
  /// Sends this number of events twice.
  case duplicateEvents(times: Int)
  /// Confirms additions to the accept list but connects to no device on the list, like google/bumble's
  /// emulated controller (0.0.236).
  case overlookAcceptList
  /// Confirms the cancellation of a connection attempt but continues the attempt until the next attempt is
  /// started. The next attempt behaves in the same way.
  case goOnWithConnects
  /// Delays this number of replies; `nil` for all. All other packets overtake the delayed replies.
  case delayAnswers(Duration, times: Int?)
  /// Ends each LE Enable Encryption with this error status, without encrypting. If `nil`, never reports the
  /// end.
  case failEncryption(HCIStatus?)
  /// Reports immediately that links are no longer encrypted. Core 5.4, Vol 4, Part E, 7.7.8.
  case endEncryption
}

/// The active faults of a controller.
struct ControllerFaults {
  /// The highest handle, which no link uses. Core 5.4, Vol 4, Part E, 5.3.1.
  static let staleHandle = ConnectionHandle(0x0EFF)

  struct Refusal {
    let opcode: HCIOpcode
    let status: HCIStatus
    var times: Int
  }

  struct EncryptionFailure {
    /// Status of the event; `nil` to send no event.
    let status: HCIStatus?
  }

  /// A packet with its H4 type byte.
  struct Delayed {
    let due: MonotonicTime
    let type: HCIPacketType
    let octets: [UInt8]
  }

  var isSilent = false
  /// Whether HCI Reset ends the silence.
  var heedsReset = false
  var withholdsCompletedPackets = false
  var overlooksAcceptList = false
  var goesOnWithConnects = false
  var wrongOpcodes = 0
  var staleHandles = 0
  var duplicates = 0
  var delay = Duration.zero
  var delays = 0
  /// Failure of LE Enable Encryption; `nil` if it succeeds.
  var encryption: EncryptionFailure?
  var refusals: [Refusal] = []
  var delayed: [Delayed] = []

  /// Whether packets to the host are passed on unmodified.
  var isEmpty: Bool {
    !isSilent && !withholdsCompletedPackets && wrongOpcodes == 0 && staleHandles == 0 && duplicates == 0
      && delays == 0
  }

  /// Counts a command that may be refused.
  ///
  /// - Returns: The status to refuse the command with, or `nil` to accept it this time.
  mutating func refusal(of opcode: HCIOpcode) -> HCIStatus? {
    guard let index = refusals.firstIndex(where: { $0.opcode == opcode && $0.times > 0 }) else { return nil }
    if refusals[index].times < .max { refusals[index].times -= 1 }
    return refusals[index].status
  }
}

extension VirtualController {
  /// Starts a fault in addition to the active faults.
  public func inject(_ fault: ControllerFault, now: MonotonicTime) {
    air.receive(now: now)
    switch fault {
    case .refuse(let opcode, let status, let times):
      injected.refusals.append(.init(opcode: opcode, status: status, times: times ?? .max))
    case .silence: (injected.isSilent, injected.heedsReset) = (true, false)
    case .silenceUntilReset: (injected.isSilent, injected.heedsReset) = (true, true)
    case .hardwareError(let code): event(.hardwareError, capacity: 1) { $0.append(code) }
    case .restart(let event):
      leave()
      if !event.isEmpty { append(.event, event) }
    case .withholdCompletedPackets: injected.withholdsCompletedPackets = true
    case .overlookAcceptList: injected.overlooksAcceptList = true
    case .goOnWithConnects: injected.goesOnWithConnects = true
    case .wrongOpcode(let times): injected.wrongOpcodes = times
    case .staleHandle(let times): injected.staleHandles = times
    case .duplicateEvents(let times): injected.duplicates = times
    case .delayAnswers(let delay, let times):
      injected.delay = delay
      injected.delays = times ?? .max
    case .failEncryption(let status): injected.encryption = .init(status: status)
    case .endEncryption: endEncryption()
    }
  }

  /// Ends all faults. Withheld packets are not sent; delayed packets are sent when they are due.
  public func clearFaults() {
    let delayed = injected.delayed
    injected = ControllerFaults()
    injected.delayed = delayed
  }

  /// Ends a silence if the packet from the host is an HCI Reset that the controller heeds.
  ///
  /// - Parameter packet: the packet, H4 type byte first.
  /// - Returns: whether the controller is still silent.
  func staysSilent(at packet: Span<UInt8>) -> Bool {
    guard injected.isSilent else { return false }
    guard injected.heedsReset, packet.count >= 3, packet[0] == HCIPacketType.command.rawValue,
      packet.u16(at: 1) == ControllerCommand.reset.rawValue
    else { return true }
    (injected.isSilent, injected.heedsReset) = (false, false)
    return false
  }

  /// Applies the active faults to a packet for the host. No other code modifies packets.
  ///
  /// - Parameter octets: the packet without the H4 type byte.
  func tamper(_ type: HCIPacketType, _ octets: [UInt8]) {
    if injected.isSilent {
      if type == .acl { air.whenFrameLost?(.silentController, octets.span) }
      return
    }
    guard type == .event else {
      if injected.staleHandles > 0, type == .acl {
        injected.staleHandles -= 1
        var stray = octets
        let word = ControllerFaults.staleHandle.rawValue | octets.span.u16(at: 0) & 0xF000
        (stray[0], stray[1]) = (UInt8(truncatingIfNeeded: word), UInt8(truncatingIfNeeded: word >> 8))
        append(type, stray)
      }
      return append(type, octets)
    }
    var octets = octets
    switch HCIEventCode(rawValue: octets[0]) {
    case .numberOfCompletedPackets:
      if injected.withholdsCompletedPackets { return }
      if injected.staleHandles > 0 {
        let handle = ControllerFaults.staleHandle.rawValue
        append(
          type,
          [octets[0], 5, 1, UInt8(truncatingIfNeeded: handle), UInt8(truncatingIfNeeded: handle >> 8), 1, 0])
      }
    // The opcode follows code, length and credits. In Command Status, a status precedes the credits.
    case .commandComplete: if tamperAnswer(&octets, opcodeAt: 3) { return }
    case .commandStatus: if tamperAnswer(&octets, opcodeAt: 4) { return }
    default: break
    }
    append(type, octets)
    if injected.duplicates > 0 {
      injected.duplicates -= 1
      append(type, octets)
    }
  }

  /// Applies the faults to a reply.
  ///
  /// - Returns: Whether the reply is delayed.
  private func tamperAnswer(_ octets: inout [UInt8], opcodeAt offset: Int) -> Bool {
    if injected.wrongOpcodes > 0 {
      injected.wrongOpcodes -= 1
      octets[offset] ^= 0xFF
    }
    guard injected.delays > 0 else { return false }
    if injected.delays < .max { injected.delays -= 1 }
    let due = air.now.advanced(by: injected.delay)
    injected.delayed.append(.init(due: due, type: .event, octets: octets))
    return true
  }

  private func append(_ type: HCIPacketType, _ octets: [UInt8]) {
    guard let tester else { return outbox.append(type, capacity: octets.count) { $0.append(octets.span) } }
    for packet in tester.edit([type.rawValue] + octets) where !packet.isEmpty {
      outbox.append(HCIPacketType(rawValue: packet[0]), capacity: packet.count - 1) {
        $0.append(packet.span.extracting(1...))
      }
    }
  }

  // MARK: Delayed answers

  var delayedDeadline: MonotonicTime? { injected.delayed.map(\.due).min() }

  func releaseDelayed(now: MonotonicTime) {
    guard !injected.delayed.isEmpty else { return }
    let due = injected.delayed.filter { $0.due <= now }
    injected.delayed.removeAll { $0.due <= now }
    if injected.isSilent { return }
    for packet in due { append(packet.type, packet.octets) }
  }
}
