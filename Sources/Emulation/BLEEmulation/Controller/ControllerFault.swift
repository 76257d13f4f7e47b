public import BLEWire

/// How a controller misbehaves towards its host.
public enum ControllerFault: Hashable, Sendable {
  /// Answers this command with this status and does nothing, so many times; `nil` is for ever.
  case refuse(HCIOpcode, HCIStatus, times: Int?)
  /// Neither does nor says anything any more: a host gives it up when its next command is not answered.
  case silence
  /// Says at once that it failed, with this code: a host must reset it, and its links are gone.
  /// Core 5.4, Vol 4, Part E, 7.7.16.
  case hardwareError(UInt8)
  /// Starts again at once, as after a power failure: it forgets its links, masks and lists, and says nothing but this HCI event,
  /// if any, code and length first. A host has to find out.
  case restart(announcedBy: [UInt8])
  /// Number Of Completed Packets never comes: a host stops sending after as many packets as it was promised buffers.
  case withholdCompletedPackets
  /// The opcode of so many answers is wrong: their commands are never answered.
  case wrongOpcode(times: Int)
  /// Before so many ACL packets comes the same one on a handle that never was, and before each Number Of Completed
  /// Packets one for that handle: a host drops them.
  case staleHandle(times: Int)
  /// So many events come twice.
  case duplicateEvents(times: Int)
  /// Takes an accept list and finds nobody by it, as google/bumble's emulated controller (0.0.236).
  case overlookAcceptList
  /// Confirms that it gives a connect up and goes on with it, until it is told to make another, likewise.
  case goOnWithConnects
  /// So many answers, or all, come this much later; everything else overtakes them.
  case delayAnswers(Duration, times: Int?)
  /// LE Enable Encryption ends with this status, which is not success, and encrypts nothing; `nil`: its event never comes.
  case failEncryption(HCIStatus?)
  /// Reports at once that its encrypted links are not encrypted any more. Core 5.4, Vol 4, Part E, 7.7.8.
  case endEncryption
}

/// The faults in force at one controller.
struct ControllerFaults {
  /// A handle that no link has. Core 5.4, Vol 4, Part E, 5.3.1: the last.
  static let staleHandle = ConnectionHandle(0x0EFF)

  struct Refusal {
    let opcode: HCIOpcode
    let status: HCIStatus
    var times: Int
  }

  struct EncryptionFailure {
    /// `nil`: no event.
    let status: HCIStatus?
  }

  /// A packet with its H4 type octet.
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
  /// How LE Enable Encryption fails, if it does.
  var encryption: EncryptionFailure?
  var refusals: [Refusal] = []
  var delayed: [Delayed] = []

  /// No packet to the host is touched.
  var isEmpty: Bool {
    !isSilent && !withholdsCompletedPackets && wrongOpcodes == 0 && staleHandles == 0 && duplicates == 0
      && delays == 0
  }

  /// - Returns: how this command is to be refused this time.
  mutating func refusal(of opcode: HCIOpcode) -> HCIStatus? {
    guard let index = refusals.firstIndex(where: { $0.opcode == opcode && $0.times > 0 }) else { return nil }
    if refusals[index].times < .max { refusals[index].times -= 1 }
    return refusals[index].status
  }
}

extension VirtualController {
  /// Misbehaves from now on, besides the faults in force.
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

  /// Behaves again. What was withheld stays away; what was delayed comes when it is due.
  public func clearFaults() {
    let delayed = injected.delayed
    injected = ControllerFaults()
    injected.delayed = delayed
  }

  /// The one place where packets to the host are spoiled.
  ///
  /// - Parameter octets: without the H4 type octet.
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
    // The opcode follows code, length and credits, and in Command Status the status too.
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

  /// - Returns: whether the answer comes later.
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

  // MARK: Answers that come later

  var delayedDeadline: MonotonicTime? { injected.delayed.map(\.due).min() }

  func releaseDelayed(now: MonotonicTime) {
    guard !injected.delayed.isEmpty else { return }
    let due = injected.delayed.filter { $0.due <= now }
    injected.delayed.removeAll { $0.due <= now }
    if injected.isSilent { return }
    for packet in due { append(packet.type, packet.octets) }
  }
}
