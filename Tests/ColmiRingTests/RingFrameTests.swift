import BLEWire
import ColmiRing
import TestKit
import Testing

@Suite struct RingFrameTests {
  @Test(arguments: [
    ("rawStart", "A1 04", RingCommand.rawStart),
    ("rawStart", "A1 04 04", RingCommand(0xA1, 0x04, 0x04)),
    ("rawStop", nil, RingCommand.rawStop),
    ("batteryRequest", nil, RingCommand.battery),
  ])
  func encodesCommands(kind: String, variant: String?, command: RingCommand) throws {
    let vector = try #require(RingVector.of(kind: kind).first { $0.expect.variant == variant })
    let octets = [UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) }
    #expect(octets == vector.octets)
    #expect((0..<16).map { command.octet($0) } == octets)
  }

  @Test func encodesAFullPayload() throws {
    // Bytes of the capture named in the vector; only the payload is passed.
    let expected = octetsOf("04020a506978656c20396100000000cc")
    let command = RingCommand(0x04, payload: expected.span.extracting(1..<15))
    #expect([UInt8](encoding: RingFrame.byteCount) { command.encode(into: &$0) } == expected)
  }

  @Test func tellsTheChecksum() throws {
    let vector = try #require(RingVector.all.first { $0.name == "bad-checksum" })
    let octets = vector.octets
    #expect(throws: WireError(.ring, offset: 15, .checksum(expected: 0x58, found: 0x59))) {
      _ = try RingFrame(validating: octets.span).opcode
    }
  }

  @Test func tellsTheLength() throws {
    let vector = try #require(RingVector.all.first { $0.name == "bad-length" })
    let octets = vector.octets
    #expect(throws: WireError(.ring, offset: 0, .lengthMismatch(claimed: 16, available: 2))) {
      _ = try RingFrame(validating: octets.span).opcode
    }
  }

  @Test func readsARefusal() throws {
    let vector = try #require(RingVector.of(kind: "error").first)
    let octets = vector.octets
    let frame = try RingFrame(validating: octets.span)
    let (isError, refused, code) = (frame.isError, Int(frame.refusedOpcode), Int(frame.payload[0]))
    #expect(isError)
    #expect(refused == vector.expect.command)
    #expect(code == vector.expect.code)
  }

  /// Section 2 of the protocol: three opcodes have bit 7 set in normal replies.
  @Test(
    arguments: [
      (0xA1, 0x01, false), (0xA1, 0x05, false), (0xA1, 0xEE, true), (0xBC, 0x27, false), (0xBC, 0xEE, true),
      (0xFF, 0x66, false), (0x97, 0xEE, true), (0x9E, 0x01, true), (0x1E, 0xEE, false), (0x15, 0xFF, false),
    ] as [(UInt8, UInt8, Bool)])
  func tellsRefusalsFromOpcodesWithBit7(opcode: UInt8, first: UInt8, expected: Bool) throws {
    let octets = [UInt8](encoding: RingFrame.byteCount) { RingCommand(opcode, first).encode(into: &$0) }
    let isError = try RingFrame(validating: octets.span).isError
    #expect(isError == expected)
  }
}

@Suite struct RingNameTests {
  @Test(arguments: [
    "R01", "R02_341C", "R12_ffff", "R06_A", "R03-0a1B", "R02A1B2", "R02_", "COLMI R10_01FE", "COLMI R02",
    "Colmi R02", "boAtring", "Hello Ring", "KSIX RING", "OneRing SR01", "TR-R02", "SE", "SE_12AB", "9FSM",
    "MXSR-00", "RING1", "GL-SR2_",
  ])
  func takes(_ name: String) { #expect(RingName.matches(name)) }

  @Test(arguments: [
    "", "R", "R0", "R00_1234", "R13_1234", "R99 54DC", "R02 54DC", "R10M", "SMART_RING", "R02_12345",
    "R02_12G4", "R02__12", "COLMI", "COLMI ", "COLMI  R02", "colmi R02", "COLMI P71", "r02_1234", "XR02_1234",
    "SEA", "SE12", "SEAGATE", "FITNESS BAND", "RING10", "Polar H10 12345678", "R٠٢",
  ])
  func refuses(_ name: String) { #expect(!RingName.matches(name)) }
}

@Suite struct RingUUIDTests {
  /// UUIDs in printed form from section 1.1 of the protocol.
  @Test(arguments: [
    (RingUUID.commandService, "6e40fff0-b5a3-f393-e0a9-e50e24dcca9e"),
    (RingUUID.commandWrite, "6e400002-b5a3-f393-e0a9-e50e24dcca9e"),
    (RingUUID.commandNotify, "6e400003-b5a3-f393-e0a9-e50e24dcca9e"),
    (RingUUID.bigDataService, "de5bf728-d711-4e47-af26-65e3012a5dc7"),
    (RingUUID.bigDataWrite, "de5bf72a-d711-4e47-af26-65e3012a5dc7"),
    (RingUUID.bigDataNotify, "de5bf729-d711-4e47-af26-65e3012a5dc7"),
  ])
  func isAsPublished(_ uuid: BluetoothUUID, _ text: String) { #expect(uuid.description == text) }
}
