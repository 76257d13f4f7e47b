import BLEStack
import BLEWire
import Synchronization

/// Decodes each PDU on its own, with all of its entries.
func fuzzATTPDU(_ pdu: Span<UInt8>) {
  _ = try? ErrorResponse(validating: pdu)
  _ = try? ExchangeMTU(validating: pdu)
  _ = try? ReadRequest(validating: pdu)
  _ = try? ReadBlobRequest(validating: pdu)
  _ = try? FindInformationRequest(validating: pdu)
  _ = try? ReadByTypeRequest(validating: pdu)
  if let write = try? Write(validating: pdu) { check(write.value, in: pdu) }
  if let part = try? PrepareWrite(validating: pdu) { check(part.value, in: pdu) }
  if let request = try? FindByTypeValueRequest(validating: pdu) { check(request.value, in: pdu) }
  if let update = try? HandleValueNotification(validating: pdu) { check(update.value, in: pdu) }
  if let update = try? HandleValueIndication(validating: pdu) { check(update.value, in: pdu) }
  try? MultipleHandleValueNotification(validating: pdu).forEach { check($0.value, in: pdu) }
  if let write = try? SignedWriteCommand(validating: pdu) {
    check(write.value, in: pdu)
    precondition(write.signature.count == SignedWriteCommand.signatureByteCount)
  }
  _ = try? ReadMultipleRequest(validating: pdu)
  _ = try? ReadMultipleVariableResponse(validating: pdu)
  _ = try? CharacteristicExtendedProperties(validating: pdu)
  _ = try? CharacteristicPresentationFormat(validating: pdu)
  _ = try? CharacteristicAggregateFormat(validating: pdu)
  if let list = try? FindInformationResponse(validating: pdu) {
    for index in 0..<list.count { _ = list[index] }
  }
  if let list = try? FindByTypeValueResponse(validating: pdu) {
    for index in 0..<list.count { _ = list[index].isValid }
  }
  if let list = try? ReadByTypeResponse(validating: pdu) {
    for index in 0..<list.count {
      check(list.value(index), in: pdu)
      _ = list.handle(index)
      _ = try? CharacteristicDeclaration(validating: list.value(index))
    }
  }
  if let list = try? ReadByGroupTypeResponse(validating: pdu) {
    for index in 0..<list.count { _ = (list.range(index), list.uuid(index)) }
  }
}

private func check(_ value: Span<UInt8>, in pdu: Span<UInt8>) {
  precondition(value.count < pdu.count, "a value longer than its PDU")
}

/// PDUs that a server sends to a client. In the first byte of each PDU, bit 0 sends a request first, with
/// bits 1 to 4 as its opcode; bit 6 lets time pass; bit 7 selects the request's subject.
func fuzzATTClient(_ input: Span<UInt8>) {
  var machine = ATTClientMachine()
  var now = MonotonicTime(nanoseconds: 1)
  var isOpen = true
  forEachPacket(input) { kind, pdu in
    guard isOpen else { return }
    if kind & 1 != 0, machine.isIdle {
      let request: [UInt8] = kind & 0x80 == 0 ? [1, 0, 0xFF, 0xFF, 0x00, 0x28] : [9, 0, 12, 0, 0x03, 0x28]
      machine.begin(([kind & 0x1E] + request).span, now: now)
    }
    if kind & 0x40 != 0 {
      now = now.advanced(by: .seconds(20))
      if let held = machine.release(now: now) { precondition(!held.pdu.isEmpty && machine.isIdle) }
      if machine.expire(now: now) != nil { isOpen = false }
    }
    let before = machine.strayResponses
    let reaction = try? machine.receive(pdu, now: now) { precondition($0.value.count <= pdu.count - 3) }
    if case .stray = reaction { precondition(machine.strayResponses == before + 1) }
    precondition((ATT.defaultMTU...ATT.maximumMTU).contains(machine.mtu))
    precondition(machine.isIdle == (machine.deadline == nil))
  }
}

/// One value per kind of access, and one that is longer than an MTU.
private let services: [GATTServiceDescription] =
  .genericServices(name: "R02_3A4F") + [
    GATTServiceDescription(
      BluetoothUUID(high: 0x6E40_FFF0_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E), includes: [0],
      characteristics: [
        GATTCharacteristicDescription(
          BluetoothUUID(high: 0x6E40_0002_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E),
          [.write, .writeWithoutResponse], maximumByteCount: 20),
        GATTCharacteristicDescription(
          BluetoothUUID(high: 0x6E40_0003_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E), [.notify, .indicate],
          descriptors: [GATTDescriptorDescription(BluetoothUUID(0x2901), value: [0x52, 0x58])]),
        GATTCharacteristicDescription(
          BluetoothUUID(0x2A25), [.read, .authenticatedSignedWrites], value: [1]),
        GATTCharacteristicDescription(
          BluetoothUUID(0x2A24), [.read, .write], value: [UInt8](repeating: 0x41, count: 300)),
      ]),
    GATTServiceDescription(BluetoothUUID(0x180F), kind: .secondary, endHandle: AttributeHandle(0xFFFF)),
  ]

private let signingBond: Bond = {
  var bond = Bond(isAuthenticated: false, isSecureConnections: false, keyByteCount: 16, isBonded: true)
  bond.peerSigningKey = 0x1234
  return bond
}()

/// PDUs that a client sends to a server. In the first byte of each PDU, bit 0 first notifies a value, bit 1
/// indicates it, bit 2 makes the server refuse the write.
func fuzzATTServer(_ input: Span<UInt8>) {
  var database = GATTServerDatabase(services)
  var server = ATTServer(database: database)
  let bond = Mutex(signingBond)
  server.signatureCheck = { command in bond.withLock { $0.accepts(command) } }
  let capacity = max(server.mtu, server.receiveMTU)
  let value = [UInt8](repeating: 0x55, count: 40)
  let notified = database.valueHandle(
    of: BluetoothUUID(high: 0x6E40_0003_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E))
  guard let notified else { fatalError("no such value") }
  forEachPacket(input) { kind, pdu in
    if kind & 1 != 0 {
      let push = [UInt8](encoding: capacity) {
        _ = server.push(
          kind & 2 == 0 ? .notification : .indication, of: notified, value: value.span, database: database,
          into: &$0)
      }
      precondition(push.count <= server.mtu)
    }
    let answer = [UInt8](encoding: capacity) {
      server.receive(pdu, database: &database, into: &$0) { _, value in
        precondition(value.count <= ATT.maximumValueByteCount)
        return kind & 4 == 0 ? nil : .writeNotPermitted
      }
    }
    precondition(answer.count <= server.mtu && (ATT.defaultMTU...ATT.maximumMTU).contains(server.mtu))
    guard let first = answer.first else { return }
    // Each request gets one response, and nothing else does.
    let request = ATTOpcode(rawValue: pdu[0])
    precondition(request.kind == .request && (first == 1 || first == request.rawValue + 1))
  }
}

/// A server that returns the responses in the input, one per request, until all are used.
private final class ScriptedServer: ATTRequester {
  /// Maximum number of requests; more than any discovery of 65,535 handles needs with responses of this size.
  private static let limit = 10_000

  private var answers: [[UInt8]] = []
  private var requests = 0
  let mtu = 64

  init(_ input: Span<UInt8>) {
    forEachPacket(input) { _, pdu in answers.append(array(pdu)) }
    answers.reverse()
  }

  func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8] {
    requests += 1
    precondition(requests <= Self.limit, "a walk without end")
    precondition(request.count <= mtu)
    let timeout = GATTError.timedOut(ATTOpcode(rawValue: request[0]))
    guard let answer = answers.popLast(), let first = answer.first else { throw timeout }
    if first == ATTOpcode.errorResponse.rawValue, let error = try? ErrorResponse(validating: answer.span) {
      throw .refused(error)
    }
    // The client machine accepts only these.
    guard first == request[0] + 1, answer.count <= mtu else { throw timeout }
    return answer
  }

  func send(_ command: [UInt8]) async throws(GATTError) {}
}

/// Discovery and reads against arbitrary responses.
func fuzzGATTDiscovery(_ input: Span<UInt8>) {
  guard !input.isEmpty else { return }
  let action = input[0] & 3
  let script = array(input.extracting(1...))
  let hasEnded = Mutex(false)
  // No response takes time, so the task ends before `immediate` returns.
  Task.immediate {
    let server = ScriptedServer(script.span)
    switch action {
    case 0: _ = try? await server.discoverDatabase()
    case 1: _ = try? await server.discoverServices(BluetoothUUID(0x180D))
    case 2: _ = try? await server.read(AttributeHandle(3))
    default: try? await server.write([UInt8](repeating: 0, count: 100), to: AttributeHandle(3))
    }
    hasEnded.withLock { $0 = true }
  }
  precondition(hasEnded.withLock(\.self), "discovery waits for something")
}
