import BLEWire
import TestKit
import Testing

/// Packets of an Android phone's log that identify no device, and layouts of Core 5.4, Vol 4, Part E.
@Suite struct HCIRoundTripTests {
  private static let command: PDUCase.Recode = { (octets) throws(WireError) in
    let packet = try HCICommandPacket(validating: octets.span)
    return [UInt8](encoding: octets.count) { packet.encode(into: &$0) }
  }
  private static let event: PDUCase.Recode = { (octets) throws(WireError) in
    let packet = try HCIEventPacket(validating: octets.span)
    return [UInt8](encoding: octets.count) { packet.encode(into: &$0) }
  }

  static let commands = [
    PDUCase("Reset", "030c 00", minimum: 3, command),
    PDUCase("LE Set Event Mask", "0120 08 7f1e020000000000", minimum: 3, command),
  ]
  static let events = [
    PDUCase("Command Complete", "0e 04 01 030c 00", minimum: 2, event),
    PDUCase("Number of Completed Packets", "13 05 01 0002 0100", minimum: 2, event),
  ]
  static let eventParameters = [
    PDUCase("Command Complete, LE Read Local Supported Features", "01 0320 00 fd7f010000000000", minimum: 3) {
      (octets) throws(WireError) in
      let event = try CommandComplete(validating: octets.span)
      return [UInt8](encoding: octets.count) { event.encode(into: &$0) }
    },
    // Core 5.4, Vol 4, Part E, 7.7.65.1.
    PDUCase("LE Connection Complete", "01 00 4000 00 01 b2a1000dcb70 1800 0400 f401 00", minimum: 19) {
      (octets) throws(WireError) in
      let event = try LEConnectionComplete(validating: octets.span)
      return [UInt8](encoding: octets.count) { event.encode(into: &$0) }
    },
    PDUCase("Command Status", "00 04 4320", minimum: 4) { (octets) throws(WireError) in
      let event = try CommandStatus(validating: octets.span)
      return [UInt8](encoding: octets.count) { event.encode(into: &$0) }
    },
    PDUCase("Disconnection Complete", "00 0002 13", minimum: 4) { (octets) throws(WireError) in
      let event = try DisconnectionComplete(validating: octets.span)
      return [UInt8](encoding: octets.count) { event.encode(into: &$0) }
    },
  ]

  @Test(arguments: commands + events + eventParameters)
  func givesTheSameOctetsBack(_ packet: PDUCase) throws { try packet.checkRoundTrip() }
  @Test(arguments: commands) func refusesTruncatedCommands(_ packet: PDUCase) {
    packet.checkTruncations(.hciCommand)
  }
  @Test(arguments: events + eventParameters) func refusesTruncatedEvents(_ packet: PDUCase) {
    packet.checkTruncations(.hciEvent)
  }
}

@Suite struct HCIFieldTests {
  @Test func readsACommand() throws {
    let octets = octetsOf("4220 06 01 00 00000000")
    let packet = try HCICommandPacket(validating: octets.span)
    let (opcode, count) = (packet.opcode, packet.parameters.count)
    #expect(opcode == .leSetExtendedScanEnable)
    #expect(count == 6)
  }

  @Test func refusesALengthThatLies() {
    let command = octetsOf("030c 01")
    #expect(throws: WireError(.hciCommand, offset: 2, .lengthMismatch(claimed: 1, available: 0))) {
      _ = try HCICommandPacket(validating: command.span).opcode
    }
    let event = octetsOf("0e 03 01 030c 00")
    #expect(throws: WireError(.hciEvent, offset: 1, .lengthMismatch(claimed: 3, available: 4))) {
      _ = try HCIEventPacket(validating: event.span).code
    }
  }

  @Test func readsTheAnswers() throws {
    let parameters = octetsOf("01 0320 00 fd7f010000000000")
    let complete = try CommandComplete(validating: parameters.span)
    let (credits, opcode, values) = (complete.credits, complete.opcode, array(complete.returnParameters))
    #expect(credits == 1)
    #expect(opcode == .leReadLocalSupportedFeatures)
    #expect(values == octetsOf("00 fd7f010000000000"))
    let status = octetsOf("0c 04 4320")
    #expect(
      try CommandStatus(validating: status.span)
        == CommandStatus(status: .commandDisallowed, credits: 4, opcode: HCIOpcode(rawValue: 0x2043)))
    let ended = octetsOf("00 0002 13")
    #expect(
      try DisconnectionComplete(validating: ended.span)
        == DisconnectionComplete(
          status: .success, handle: ConnectionHandle(0x200), reason: .remoteUserTerminated))
  }

  /// Parameters are laid out by Core 5.4, Vol 4, Part E, 7.8.10, 7.8.11, 7.8.64 and 7.8.65.
  @Test func writesScanCommands() {
    let timing = ScanTiming(interval: 0x60, window: 0x30)
    expect(LESetScanParameters(kind: .active, timing: timing), "0b20", "01 6000 3000 00 00")
    expect(LESetScanParameters(kind: .passive, timing: timing), "0b20", "00 6000 3000 00 00")
    expect(LESetScanEnable(.reportOnce), "0c20", "01 01")
    expect(LESetScanEnable(.reportAll), "0c20", "01 00")
    expect(LESetScanEnable(nil), "0c20", "00 00")
    expect(LESetExtendedScanParameters(kind: .active, timing: timing), "4120", "00 00 01 01 6000 3000")
    expect(LESetExtendedScanEnable(.reportOnce), "4220", "01 01 0000 0000")
    expect(LESetExtendedScanEnable(nil), "4220", "00 00 0000 0000")
    // As sent by the phone in the capture.
    expect(LESetExtendedScanEnable(.reportAll), "4220", "01 00 0000 0000")
  }

  private func expect<Command: HCICommand>(_ command: Command, _ opcode: String, _ parameters: String) {
    let octets = [UInt8](encoding: 255) { command.encodeParameters(into: &$0) }
    #expect(octets == octetsOf(parameters))
    #expect([UInt8](encoding: 2) { $0.append(u16: Command.opcode.rawValue) } == octetsOf(opcode))
  }

  @Test func namesStatusesItDoesNotKnow() {
    #expect(HCIStatus(rawValue: 0x0C).name.description == "Command Disallowed")
    #expect(HCIStatus(rawValue: 0xFE).name.description == "other")
  }
}

@Suite struct ACLAndL2CAPTests {
  private static let acl: PDUCase.Recode = { (octets) throws(WireError) in
    let packet = try ACLPacket(validating: octets.span)
    return [UInt8](encoding: octets.count) { packet.encode(into: &$0) }
  }
  private static let frame: PDUCase.Recode = { (octets) throws(WireError) in
    let frame = try L2CAPFrame(validating: octets.span)
    return [UInt8](encoding: octets.count) { frame.encode(into: &$0) }
  }
  private static let signal: PDUCase.Recode = { (octets) throws(WireError) in
    let signal = try L2CAPSignal(validating: octets.span)
    return [UInt8](encoding: octets.count) { signal.encode(into: &$0) }
  }

  static let acls = [
    PDUCase("from the host", "0002 0b00 07000400100100ffff0028", minimum: 4, acl),
    PDUCase("from the controller", "0022 0900 050004001b12000502", minimum: 4, acl),
    PDUCase("continuation", "ff1e 0100 55", minimum: 4, acl),
  ]
  static let frames = [
    PDUCase("ATT", "0500 0400 1b12000502", minimum: 4, frame),
    PDUCase("empty", "0000 0500", minimum: 4, frame),
    // 25 to 50 ms, latency 4, timeout 5 s, as a ring requests.
    PDUCase("parameter update request", "12 01 0800 14002800 0400 f401", minimum: 4, signal),
  ]

  @Test(arguments: acls + frames) func givesTheSameOctetsBack(_ packet: PDUCase) throws {
    try packet.checkRoundTrip()
  }
  @Test(arguments: acls) func refusesTruncatedPackets(_ packet: PDUCase) { packet.checkTruncations(.acl) }
  @Test(arguments: frames) func refusesTruncatedFrames(_ frame: PDUCase) { frame.checkTruncations(.l2cap) }

  @Test(
    arguments: [
      ("0002 0000", 0x200, .firstNonFlushable), ("0012 0000", 0x200, .continuation),
      ("0022 0000", 0x200, .firstFlushable), ("ff3e 0000", 0xEFF, .complete),
    ] as [(String, UInt16, ACLPacket.Boundary)])
  func readsHandleAndBoundary(_ hex: String, _ handle: UInt16, _ boundary: ACLPacket.Boundary) throws {
    let octets = octetsOf(hex)
    let packet = try ACLPacket(validating: octets.span)
    let read = (packet.handle.rawValue, packet.boundary)
    #expect(read == (handle, boundary))
  }

  @Test func refusesLengthsThatLie() {
    let acl = octetsOf("0002 0300 0102")
    #expect(throws: WireError(.acl, offset: 2, .lengthMismatch(claimed: 3, available: 2))) {
      _ = try ACLPacket(validating: acl.span).handle
    }
    let frame = octetsOf("ffff 0400 01")
    #expect(throws: WireError(.l2cap, offset: 0, .lengthMismatch(claimed: 0xFFFF, available: 1))) {
      _ = try L2CAPFrame(validating: frame.span).channelID
    }
    let signal = octetsOf("12 01 0900 14002800 0400 f401")
    #expect(throws: WireError(.l2cap, offset: 2, .lengthMismatch(claimed: 9, available: 8))) {
      _ = try L2CAPSignal(validating: signal.span).code
    }
  }
}
