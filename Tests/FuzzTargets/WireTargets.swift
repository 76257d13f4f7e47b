import BLEDissector
import BLEEmulation
import BLEHost
import BLEStack
import BLEWire
import ColmiRing
import JSONText

/// LE Meta events with advertising reports. Each report must lie inside its event, and must not exceed the
/// maximum size when reassembled.
func fuzzAdvertising(_ input: Span<UInt8>) {
  var assembler = AdvertisingReportAssembler()
  forEachPacket(input) { _, parameters in
    var octets = 0
    try? AdvertisingReports(validating: parameters).forEach { report in
      octets += report.data.count
      assembler.take(report) { whole in
        precondition(whole.data.count <= AdvertisingReportAssembler.maximumByteCount)
        var structures = 0
        try? AdvertisingData(whole.data).forEach { structures += 2 + $1.count }
        precondition(structures <= whole.data.count)
      }
    }
    precondition(octets <= parameters.count)
  }
  var structures = 0
  try? AdvertisingData(input).forEach { type, value in
    structures += 2 + value.count
    if type == .completeLocalName { _ = RingName.matches(value) }
  }
  precondition(structures <= input.count)
}

/// Events, return parameters and frames, each decoded separately. None may be read beyond its end.
func fuzzHCIPDU(_ input: Span<UInt8>) {
  if let event = try? HCIEventPacket(validating: input) { precondition(event.parameters.count < input.count) }
  if let command = try? HCICommandPacket(validating: input) {
    precondition(command.parameters.count < input.count)
  }
  if let complete = try? CommandComplete(validating: input) {
    precondition(complete.returnParameters.count < input.count)
  }
  if let packet = try? ACLPacket(validating: input) { precondition(packet.data.count + 4 == input.count) }
  if let frame = try? L2CAPFrame(validating: input) { precondition(frame.payload.count + 4 <= input.count) }
  if let signal = try? L2CAPSignal(validating: input) { precondition(signal.data.count + 4 <= input.count) }
  if let packets = try? NumberOfCompletedPackets(validating: input) { _ = packets }
  _ = try? CommandStatus(validating: input)
  _ = try? DisconnectionComplete(validating: input)
  _ = try? LEConnectionComplete(validating: input)
  _ = try? LEConnectionUpdateComplete(validating: input)
  _ = try? LERemoteConnectionParameterRequest(validating: input)
  _ = try? LEReadRemoteFeaturesComplete(validating: input)
  _ = try? ReadRemoteVersionComplete(validating: input)
  _ = try? LEDataLengthChange(validating: input)
  _ = try? LEPHYUpdateComplete(validating: input)
  _ = try? LEEnableEncryption(validating: input)
  _ = try? EncryptionChange(validating: input)
  _ = try? EncryptionChange(validatingV2: input)
  _ = try? EncryptionKeyRefreshComplete(validating: input)
  _ = try? ReadRSSI.Reply(validating: input)
}

/// Packets from the kernel's management socket.
func fuzzManagement(_ input: Span<UInt8>) {
  if let packet = try? ManagementPacket(validating: input) {
    let again = [UInt8](encoding: input.count) { packet.encode(into: &$0) }
    precondition(again == array(input), "the packet is another one")
    let parameters = packet.parameters
    if let reply = try? ManagementReply(validating: parameters) {
      _ = try? ControllerSettings(informationReply: reply.parameters)
      _ = try? ConnectionInformation(validating: reply.parameters)
    }
    _ = try? Discovering(validating: parameters)
    if let found = try? DeviceFound(validating: parameters) {
      precondition(found.report.data.count + 14 == parameters.count)
    }
  }
}

/// A notification from a ring.
func fuzzRingFrame(_ input: Span<UInt8>) {
  _ = RingName.matches(input)
  guard let frame = try? RingFrame(validating: input) else {
    let sample = try? RingRawSample(decoding: input)
    precondition(sample == nil, "a sample of what is no frame")
    return
  }
  // A frame of these parts has the same checksum. Opcode and payload are its entire content.
  let command = RingCommand(frame.opcode, payload: frame.payload)
  let again = [UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) }
  precondition(again == array(input), "the frame is another one")
  _ = (frame.isError, frame.refusedOpcode)
  _ = try? RingRawSample(decoding: frame)
}

/// Text from the command line and from files.
func fuzzText(_ input: Span<UInt8>) {
  let text = String(decoding: array(input), as: UTF8.self)
  if let uuid = BluetoothUUID(text) { precondition(BluetoothUUID(uuid.description) == uuid) }
  if let address = DeviceAddress(text, type: .random) {
    precondition(DeviceAddress(address.description, type: .random) == address)
  }
  if let transport = try? TransportSpecification(text) {
    let again = try? TransportSpecification(transport.description)
    precondition(again == transport, "the transport is another one")
  }
  _ = try? VirtualPeripheralSpecification(parsing: text)
  _ = PacketFilter.Attribute(text)
  _ = PacketFilter.Instant(text)
  _ = PacketFilter.attOpcode(text)
  _ = RingName.matches(text)
  var line = JSONLine()
  line.object {
    $0.member(text, text)
    $0.key("octets")
    $0.text(input)
  }
  checkJSON(line.octets)
}
