public import BLEWire

/// A fault in a controller's behaviour towards its host.
public enum ControllerFault: Hashable, Sendable {
  /// Refuses this command with this status, this number of times; always if `nil`.
  case refuse(HCIOpcode, HCIStatus, times: Int?)
  /// Stops responding. The host's next command times out.
  case silence
  /// Sends Hardware Error with this code immediately. The host must reset the controller, and its links are
  /// lost. Core 5.4, Vol 4, Part E, 7.7.16.
  case hardwareError(UInt8)
  /// Restarts immediately, as after a power failure: loses its links, masks and lists, and sends only this
  /// HCI event (code and length first; empty for none). The host must detect the restart.
  case restart(announcedBy: [UInt8])
  /// Never sends Number Of Completed Packets. The host must stop sending once the reported buffers are in
  /// use.
  case withholdCompletedPackets
  /// Sends this number of replies with a wrong opcode. Their commands are never answered.
  case wrongOpcode(times: Int)
  /// Before each of this number of ACL packets, sends a copy with an unknown handle; before each Number Of
  /// Completed Packets, one for that handle. The host must drop them.
  case staleHandle(times: Int)
  /// Sends this number of events twice.
  case duplicateEvents(times: Int)
  /// Confirms additions to the accept list but connects to no device on it, like google/bumble's emulated
  /// controller (0.0.236).
  case overlookAcceptList
  /// Confirms the cancellation of a connection attempt but continues the attempt until the next one is
  /// started, which behaves the same.
  case goOnWithConnects
  /// Delays this number of replies, all if `nil`. All other packets overtake them.
  case delayAnswers(Duration, times: Int?)
  /// Completes LE Enable Encryption with this error status, without encrypting; if `nil`, never sends the
  /// event.
  case failEncryption(HCIStatus?)
  /// Reports immediately that links are no longer encrypted. Core 5.4, Vol 4, Part E, 7.7.8.
  case endEncryption
}

/// The active faults of a controller.
struct ControllerFaults {
  /// A handle that no link uses: the highest. Core 5.4, Vol 4, Part E, 5.3.1.
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
  var withholdsCompletedPackets = false
  var overlooksAcceptList = false
  var goesOnWithConnects = false
  var wrongOpcodes = 0
  var staleHandles = 0
  var duplicates = 0
  var delay = Duration.zero
  var delays = 0
  /// How LE Enable Encryption fails; `nil` if it does not.
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
  /// - Returns: The status to refuse the command with; `nil` if it is not refused this time.
  mutating func refusal(of opcode: HCIOpcode) -> HCIStatus? {
    guard let index = refusals.firstIndex(where: { $0.opcode == opcode && $0.times > 0 }) else { return nil }
    if refusals[index].times < .max { refusals[index].times -= 1 }
    return refusals[index].status
  }
}

extension VirtualController {
  /// Starts a fault in addition to the active ones.
  public func inject(_ fault: ControllerFault, now: MonotonicTime) {
    air.receive(now: now)
    switch fault {
    case .refuse(let opcode, let status, let times):
      injected.refusals.append(.init(opcode: opcode, status: status, times: times ?? .max))
    case .silence: injected.isSilent = true
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

  /// Applies the faults to a packet to the host. No other code modifies packets.
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
    // The opcode follows code, length and credits, and in Command Status also the status.
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
