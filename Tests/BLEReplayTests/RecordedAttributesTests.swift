import BLEWire
import Testing

@testable import BLEReplay

/// A server reconstructed from the responses that a client received. PDUs by hand, from Core 5.4, Vol 3, Part
/// F, 3.4.
@Suite struct RecordedAttributesTests {
  /// Services 1800 (1 … 5) and 180D (6 … 9), a characteristic 2A37 with a value at 8, a descriptor 2902 at 9.
  private func heartRateMonitor() -> RecordedAttributes {
    var server = RecordedAttributes()
    server.learn(
      [0x10, 1, 0, 0xFF, 0xFF, 0x00, 0x28], [0x11, 6, 1, 0, 5, 0, 0x00, 0x18, 6, 0, 9, 0, 0x0D, 0x18])
    server.learn([0x08, 6, 0, 9, 0, 0x03, 0x28], [0x09, 7, 7, 0, 0x10, 8, 0, 0x37, 0x2A])
    server.learn([0x04, 9, 0, 9, 0], [0x05, 1, 9, 0, 0x02, 0x29])
    server.learn([0x0A, 9, 0], [0x0B, 0x01, 0x00])
    return server
  }

  @Test func answersWhatWasAskedOtherwise() {
    let server = heartRateMonitor()
    // All services, the same by value, and one that does not exist.
    #expect(
      server.answer([0x10, 1, 0, 0xFF, 0xFF, 0x00, 0x28])
        == [0x11, 6, 1, 0, 5, 0, 0x00, 0x18, 6, 0, 9, 0, 0x0D, 0x18])
    #expect(server.answer([0x10, 2, 0, 0xFF, 0xFF, 0x00, 0x28]) == [0x11, 6, 6, 0, 9, 0, 0x0D, 0x18])
    #expect(server.answer([0x06, 1, 0, 0xFF, 0xFF, 0x00, 0x28, 0x0D, 0x18]) == [0x07, 6, 0, 9, 0])
    #expect(server.answer([0x06, 1, 0, 0xFF, 0xFF, 0x00, 0x28, 0x09, 0x18]) == [0x01, 0x06, 1, 0, 0x0A])
    // Types of all attributes with a known type: the value's is known from its declaration.
    #expect(
      server.answer([0x04, 6, 0, 9, 0])
        == [0x05, 1, 6, 0, 0x00, 0x28, 7, 0, 0x03, 0x28, 8, 0, 0x37, 0x2A, 9, 0, 0x02, 0x29])
    #expect(server.answer([0x08, 1, 0, 9, 0, 0x03, 0x28]) == [0x09, 7, 7, 0, 0x10, 8, 0, 0x37, 0x2A])
    #expect(server.answer([0x0A, 9, 0]) == [0x0B, 0x01, 0x00])
    // A subscription that the recorded client did not make.
    #expect(server.answer([0x12, 9, 0, 0, 0]) == [0x13])
    #expect(server.answer([0x0C, 9, 0, 1, 0]) == [0x0D, 0x00])
    // A client that discovers everything also requests secondary services, which do not exist.
    #expect(server.answer([0x10, 1, 0, 0xFF, 0xFF, 0x01, 0x28]) == [0x01, 0x10, 1, 0, 0x0A])
    // No MTU exchange was recorded: the default applies.
    #expect(server.answer([0x02, 0x05, 0x02]) == [0x01, 0x02, 0, 0, 0x06])
  }

  @Test func saysNothingOfWhatItDoesNotKnow() {
    let server = heartRateMonitor()
    // A value that was never read, a write.
    #expect(server.answer([0x0A, 8, 0]) == nil)
    #expect(server.answer([0x12, 8, 0, 1, 0]) == nil)
    #expect(RecordedAttributes().answer([0x10, 1, 0, 0xFF, 0xFF, 0x00, 0x28]) == nil)
    #expect(server.answer([]) == nil)
  }

  /// A long value is assembled from its parts.
  @Test func putsALongValueTogether() {
    var server = RecordedAttributes()
    let start = [UInt8](repeating: 0x41, count: 22)
    server.learn([0x0A, 3, 0], [0x0B] + start)
    server.learn([0x0C, 3, 0, 22, 0], [0x0D, 0x42, 0x43])
    #expect(server.answer([0x0A, 3, 0]) == [0x0B] + start)
    #expect(server.answer([0x0C, 3, 0, 22, 0]) == [0x0D, 0x42, 0x43])
    #expect(server.answer([0x0C, 3, 0, 25, 0]) == nil)
  }

  /// Core 5.4, Vol 3, Part F, 3.4.1.1: the request's opcode and handle, and the reason. A search finds
  /// nothing, a value is unavailable, a request that was never recorded is not supported.
  @Test(
    arguments: [
      ([0x04, 7, 0, 9, 0], [0x01, 0x04, 7, 0, 0x0A]),
      ([0x06, 7, 0, 9, 0, 0, 0x28], [0x01, 0x06, 7, 0, 0x0A]),
      ([0x08, 7, 0, 9, 0, 3, 0x28], [0x01, 0x08, 7, 0, 0x0A]),
      ([0x10, 7, 0, 9, 0, 0, 0x28], [0x01, 0x10, 7, 0, 0x0A]), ([0x0A, 7, 0], [0x01, 0x0A, 7, 0, 0x0E]),
      ([0x0C, 7, 0, 22, 0], [0x01, 0x0C, 7, 0, 0x0E]), ([0x12, 7, 0, 1], [0x01, 0x12, 7, 0, 0x0E]),
      ([0x16, 7, 0, 0, 0, 1], [0x01, 0x16, 0, 0, 0x06]), ([0x18, 1], [0x01, 0x18, 0, 0, 0x06]),
      ([0x02, 23, 0], [0x01, 0x02, 0, 0, 0x06]), ([0x0A], [0x01, 0x0A, 0, 0, 0x0E]),
    ] as [([UInt8], [UInt8])])
  func refuses(_ request: [UInt8], _ response: [UInt8]) {
    #expect(RecordedAttributes.refusal(request) == response)
  }

  /// Commands, confirmations, responses and empty PDUs get no response.
  @Test(arguments: [[0x52, 7, 0, 1], [0x1E], [0x13], []] as [[UInt8]])
  func refusesNothingElse(_ pdu: [UInt8]) {
    #expect(RecordedAttributes.refusal(pdu) == nil)
  }

  /// The four attributes of a ring, known only from its frames, as in reference colmi-ring-protocol.md, 1:
  /// the value for commands, its notifications, and the same for big data. Declarations are before the
  /// values, CCCDs after them. Core 5.4, Vol 3, Part G, 3.1, 3.3.
  @Test func declaresWhatValuesProve() throws {
    let write = try #require(BluetoothUUID("6e400002-b5a3-f393-e0a9-e50e24dcca9e"))
    let notify = try #require(BluetoothUUID("6e400003-b5a3-f393-e0a9-e50e24dcca9e"))
    var server = RecordedAttributes()
    #expect(!server.hasDeclarations)
    server.assume([(AttributeHandle(0x12), notify), (AttributeHandle(0x10), write)])
    #expect(server.hasDeclarations)
    let uuid: [UInt8] = [
      0x9E, 0xCA, 0xDC, 0x24, 0x0E, 0xE5, 0xA9, 0xE0, 0x93, 0xF3, 0xA3, 0xB5, 0xF0, 0xFF, 0x40, 0x6E,
    ]
    #expect(
      server.answer([0x10, 1, 0, 0xFF, 0xFF, 0x00, 0x28]) == [0x11, 20, 0x0E, 0, 0x13, 0] + uuid)
    #expect(
      server.answer([0x06, 1, 0, 0xFF, 0xFF, 0x00, 0x28] + uuid) == [0x07, 0x0E, 0, 0x13, 0])
    // Write and write without response; notify.
    #expect(server.answer([0x0A, 0x0F, 0])?.prefix(4) == [0x0B, 0x0C, 0x10, 0])
    #expect(server.answer([0x0A, 0x11, 0])?.prefix(4) == [0x0B, 0x10, 0x12, 0])
    #expect(server.answer([0x04, 0x13, 0, 0x13, 0]) == [0x05, 1, 0x13, 0, 0x02, 0x29])
    #expect(server.answer([0x12, 0x13, 0, 1, 0]) == [0x13])
    // Handles at the limits, and adjacent handles, leave no room for declarations.
    var crowded = RecordedAttributes()
    crowded.assume([
      (AttributeHandle(2), notify), (AttributeHandle(0x20), write), (AttributeHandle(0x21), notify),
      (AttributeHandle(0xFFFF), .heartRateMeasurement),
    ])
    #expect(crowded.answer([0x0A, 1, 0]) == nil && crowded.answer([0x0A, 0x20, 0]) == nil)
    #expect(crowded.answer([0x0A, 0xFE, 0xFF])?.prefix(4) == [0x0B, 0x10, 0xFF, 0xFF])
  }

  /// A log may contain damaged PDUs.
  @Test(
    arguments: [
      ([0x10, 1, 0], [0x11, 6, 1]), ([0x10, 1, 0, 9, 0, 0, 0x28], [0x11, 2, 1, 0]),
      ([0x08, 1, 0, 9, 0, 0, 0x28], [0x09, 0, 1, 0]), ([0x04, 1, 0, 9, 0], [0x05, 9, 1]),
      ([0x04, 1, 0, 9, 0], [0x05]), ([0x0C, 1, 0, 0xFF, 0xFF], [0x0D]), ([], []), ([0x0A], [0x0B]),
    ] as [([UInt8], [UInt8])])
  func survivesDamage(_ request: [UInt8], _ response: [UInt8]) {
    var server = RecordedAttributes()
    server.learn(request, response)
    #expect(server.answer([0x0A, 1, 0]) == nil)
  }
}
