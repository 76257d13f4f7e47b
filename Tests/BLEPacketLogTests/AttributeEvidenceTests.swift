import BLEDissector
import BLEPacketLog
import BLEWire
import LogKit
import TestKit
import Testing

/// Attributes that count as heart rates in a log without discovery, and those that do not. Layouts are from
/// the GATT Specification Supplement and the named services.
@Suite struct AttributeEvidenceTests {
  /// A PDU from or to the device, on link 0x0040.
  private static func packet(_ pdu: [UInt8], _ direction: HCIDirection, at milliseconds: Int) -> LoggedPacket
  {
    LoggedPacket(
      type: .acl, direction: direction,
      octets: [
        0x40, direction == .hostToController ? 0 : 0x20, UInt8(pdu.count + 4), 0, UInt8(pdu.count), 0, 4, 0,
      ] + pdu, timeNanoseconds: 1_760_000_000_000_000_000 + Int64(milliseconds) * 1_000_000)
  }

  /// Notifications of attribute 0x0012, one every `period`.
  private static func notified(
    _ values: [[UInt8]], opcode: UInt8 = 0x1B, handle: UInt8 = 0x12, period: Int = 1_000
  )
    -> [LoggedPacket]
  {
    values.enumerated().map { packet([opcode, handle, 0] + $1, .controllerToHost, at: $0 * period) }
  }

  /// Types of 0x0012 and 0x0020 that `ringtap import` infers in its first pass over the log.
  private static func types(_ packets: [LoggedPacket]) throws -> [AttributeHandle: BluetoothUUID] {
    let attributes = LogAttributes()
    var reader = PacketLogReader()
    var decoder = PacketDecoder(attributes)
    var evidence: [LogDevice: AttributeEvidence] = [:]
    try reader.read(log(packets).span) { record in
      decoder.decode(record) { packet in
        guard packet.att != nil else { return }
        evidence[LogDevice(0, ConnectionHandle(0x40), nil), default: AttributeEvidence()].take(packet)
      }
    }
    for (device, evidence) in evidence {
      for (handle, uuid) in evidence.types { attributes.assume(uuid, at: handle, of: device, by: .payload) }
    }
    var known: [AttributeHandle: BluetoothUUID] = [:]
    for handle in [AttributeHandle(0x12), AttributeHandle(0x20)] {
      known[handle] = attributes.type(of: handle, LogDevice(0, ConnectionHandle(0x40), nil))?.uuid
    }
    return known
  }

  private static func isHeartRate(_ packets: [LoggedPacket]) throws -> Bool {
    try types(packets)[AttributeHandle(0x12)] == .heartRateMeasurement
  }

  /// A person at rest starts walking: beats per minute, one value a second.
  private static let body: [UInt8] = [
    72, 72, 71, 70, 70, 72, 74, 75, 75, 74, 73, 74, 76, 79, 83, 86, 90, 92, 93, 95, 96, 96, 95, 97, 99, 101,
  ]

  private static func little(_ number: Int) -> [UInt8] { [UInt8(number & 0xFF), UInt8(number >> 8 & 0xFF)] }

  /// Heart Rate Service 1.0, 3.1.1: flags, 8-bit or 16-bit rate, energy, intervals in 1/1024 s.
  @Test func findsHeartRates() throws {
    #expect(try Self.isHeartRate(Self.notified(Self.body.map { [0x00, $0] })))
    #expect(try Self.isHeartRate(Self.notified(Self.body.map { [0x06, $0] })))
    #expect(try Self.isHeartRate(Self.notified(Self.body.map { [0x01, $0, 0] })))
    #expect(try Self.isHeartRate(Self.notified([[0x04, 0], [0x04, 0]] + Self.body.map { [0x06, $0] })))
    // Intervals that agree with the rate, also for a heart that beats evenly or ever faster.
    let straps: [[UInt8]] = [Self.body, Array(60...85), [UInt8](repeating: 60, count: 20)]
    for rates in straps {
      let values = rates.enumerated().map { index, rate in
        [0x16, rate] + Self.little(61_440 / Int(rate) + (index % 3 - 1) * 12)
      }
      #expect(try Self.isHeartRate(Self.notified(values)))
    }
    // A warm-up with contact and without intervals; intervals that lag behind a rising rate.
    #expect(try Self.isHeartRate(Self.notified((60...89).map { [0x06, $0] })))
    #expect(try Self.isHeartRate(Self.notified((60...89).map { [0x16, $0, 0xE8, 0x03] })))
    // With the energy in every tenth value, and an hour's gap in between.
    let energy = Self.body.enumerated().map { index, rate in
      index % 10 == 9
        ? [0x1E, rate] + Self.little(index / 10) + Self.little(700) : [0x16, rate] + Self.little(700)
    }
    var packets = Self.notified(energy)
    for index in packets.indices where index >= 12 { packets[index].timeNanoseconds += 3_600_000_000_000 }
    #expect(try Self.isHeartRate(packets))
  }

  /// Values of other characteristics, as they change in normal use: none is a heart rate.
  private static let others: [(name: String, values: [[UInt8]])] = {
    let steps = Array(0..<40)
    func waving(_ low: Int, _ width: Int) -> [Int] {
      steps.map { low + [0, 1, 3, 2, 1, 0, 2, 3][$0 % 8] * width / 3 }
    }
    return [
      ("2A1C, 2A1E: 36.5 °C", waving(365, 4).map { [0x00] + Self.little($0) + [0, 0xFF] }),
      ("2A1C: °F", waving(977, 4).map { [0x01] + Self.little($0) + [0, 0xFF] }),
      ("2A1C with a place", waving(365, 4).map { [0x04] + Self.little($0) + [0, 0xFF, 2] }),
      ("2A5F", waving(72, 6).map { [0x00, 98, 0] + Self.little($0) }),
      ("2A5F with an index", waving(72, 6).map { [0x10, 98, 0] + Self.little($0) + [45, 0xF0] }),
      ("2A5F, fast", waving(72, 6).map { [0x01, 98, 0] + Self.little($0) + [98, 0] + Self.little($0) }),
      ("2A5F, status", waving(98, 2).map { [0x18, UInt8($0), 0, 72, 0, 0, 0, 0, 45, 0xF0] }),
      ("2A5B, crank", steps.map { [0x02] + Self.little($0 + 60) + Self.little($0 * 700) }),
      ("2A5B, wheel", steps.map { [0x01] + Self.little($0 + 60) + [0, 0] + Self.little($0 * 700) }),
      ("2A53", waving(80, 6).map { [0x00] + Self.little(700) + [UInt8($0)] }),
      ("2A53, running", waving(80, 6).map { [0x04, UInt8($0), 2, 160] }),
      ("2A63", waving(80, 90).map { [0x00, 0x00] + Self.little($0) }),
      ("2A63, crank", steps.map { [0x20, 0x00, 80, 0] + Self.little($0) + Self.little($0 * 700) }),
      ("2A19", waving(80, 6).map { [UInt8($0)] }),
      ("2A9D", waving(14_000, 90).map { [0x00] + Self.little($0) }),
      ("2A18", steps.map { [0x02] + Self.little($0) + [0xE9, 7, 1, 1, 8, 0, 0, 90, 0xB0, 0x11] }),
      ("2A36", waving(120, 9).map { [0x00] + Self.little($0) + [80, 0, 93, 0] }),
      ("2A6E", waving(2_560, 90).map(Self.little)), ("ASCII", waving(60, 9).map { Array("\($0)".utf8) }),
      ("ASCII, ended", waving(60, 9).map { Array("\($0)\r\n".utf8) }),
      ("a counter", steps.map { [0x00, UInt8(40 + $0)] }),
      ("a counter backwards", steps.map { [0x04, UInt8(200 - $0)] }),
      ("a counter of 16 bits", steps.map { [0x01, UInt8(40 + $0), 0] }),
      ("oxygen", waving(95, 3).map { [0x00, UInt8($0)] }),
      ("a room", waving(215, 3).map { [0x00, UInt8($0)] }),
      ("a slow percentage", steps.map { [0x00, UInt8(60 - $0 / 20 + $0 / 30)] }),
      ("noise", steps.map { [0x00, UInt8(($0 * 97 + 31) % 200 + 30)] }),
      ("intervals of something else", waving(80, 9).map { [0x10, UInt8($0)] + Self.little(2_000) }),
      ("three intervals a second", waving(60, 9).map { [0x10, UInt8($0)] + [0, 4, 0, 4, 0, 4] }),
      ("reserved flags", Self.body.map { [0x20, $0] }),
      ("a heart in half an octet more", Self.body.map { [0x10, $0, 3] }),
      ("energy that goes back", steps.map { [0x08, UInt8(70 + $0 % 5)] + Self.little(40_000 - 900 * $0) }),
      (
        "two layouts",
        waving(72, 6).enumerated().map { $0.isMultiple(of: 2) ? [0x00, UInt8($1)] : [0x01, UInt8($1), 0] }
      ),
      ("one value of something else", Self.body.map { [0x00, $0] } + [[0x00, 72, 1]]),
    ]
  }()

  @Test(arguments: others.indices) func refusesOtherValues(_ place: Int) throws {
    let (name, values) = Self.others[place]
    #expect(try Self.types(Self.notified(values)).isEmpty, "\(name)")
  }

  /// Too few, too frequent, too rare; and operations that Heart Rate Measurement does not support:
  /// indicating, reading and writing (Heart Rate Service 1.0, 3.1).
  @Test func refusesWhatAHeartRateSensorDoesNot() throws {
    let values = Self.body.map { [0x00, $0] }
    #expect(try !Self.isHeartRate(Self.notified(Array(values.prefix(7)))))
    #expect(try !Self.isHeartRate(Self.notified(values, period: 100)))
    #expect(try !Self.isHeartRate(Self.notified(values, period: 9_000)))
    #expect(try !Self.isHeartRate(Self.notified(values, opcode: 0x1D)))
    let read = [
      Self.packet([0x0A, 0x12, 0], .hostToController, at: 90),
      Self.packet([0x0B, 0x00, 72], .controllerToHost, at: 95),
    ]
    #expect(try !Self.isHeartRate(read + Self.notified(values)))
    #expect(
      try !Self.isHeartRate(
        [Self.packet([0x52, 0x12, 0, 1], .hostToController, at: 0)] + Self.notified(values)))
    // The subscription is written to the attribute after it.
    #expect(
      try Self.isHeartRate(
        [Self.packet([0x12, 0x13, 0, 1, 0], .hostToController, at: 0)] + Self.notified(values)))
  }

  /// Two attributes that look alike, discovery that finds the measurement elsewhere, and a different service
  /// around it.
  @Test func refusesWhatTheLinkContradicts() throws {
    let values = Self.body.map { [0x00, $0] }
    let packets = Self.notified(values)
    #expect(try Self.types(packets + Self.notified(values, handle: 0x20)).isEmpty)
    // Read By Type: characteristic 0x2A37 with its value at 0x0020, declared at 0x001F.
    let elsewhere = [
      Self.packet([0x08, 1, 0, 0xFF, 0xFF, 0x03, 0x28], .hostToController, at: 0),
      Self.packet([0x09, 7, 0x1F, 0, 0x10, 0x20, 0, 0x37, 0x2A], .controllerToHost, at: 1),
    ]
    #expect(try Self.types(elsewhere + packets) == [AttributeHandle(0x20): .heartRateMeasurement])
    // Read By Group Type and Find By Type Value: a service at 0x0010 … 0x0015.
    for (service, isHeartRate) in [([0x09, 0x18], false), ([0x16, 0x18], false), ([0x0D, 0x18], true)]
      as [([UInt8], Bool)]
    {
      let group = [
        Self.packet([0x10, 1, 0, 0xFF, 0xFF, 0x00, 0x28], .hostToController, at: 0),
        Self.packet([0x11, 6, 0x10, 0, 0x15, 0] + service, .controllerToHost, at: 1),
      ]
      #expect(try Self.isHeartRate(group + packets) == isHeartRate)
      let found = [
        Self.packet([0x06, 1, 0, 0xFF, 0xFF, 0x00, 0x28] + service, .hostToController, at: 0),
        Self.packet([0x07, 0x10, 0, 0x15, 0], .controllerToHost, at: 1),
      ]
      #expect(try Self.isHeartRate(found + packets) == isHeartRate)
    }
  }
}
