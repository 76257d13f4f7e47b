import BLEEmulation
import BLEPacketLog
import BLEStack
import BLEWire
import ColmiRing
import Glibc

/// Runs one operation many times over, for `valgrind --tool=callgrind`: instructions of two runs, their difference over
/// the difference of the counts.
///
/// `micro NAME COUNT`; without arguments the names. `link` prints its rate by the thread's processor time.
@main enum Micro {
  static var operations: [(String, (Int) throws -> UInt64)] {
    [
      ("nothing", nothing), ("att", parseATT), ("ring", decodeRing), ("att+ring", parseAndDecode),
      ("advertising", parseAdvertising), ("btsnoop", writeRecord), ("acl-whole", recombineWhole),
      ("acl-10-fragments", recombineFragments), ("host", receiveByHost), ("link", link),
      ("pulse-beats", measureBeats), ("pulse-in-motion", trackPulse),
    ]
  }

  static func main() throws {
    let arguments = CommandLine.arguments
    guard arguments.count == 3, let count = Int(arguments[2]),
      let operation = operations.first(where: { $0.0 == arguments[1] })
    else {
      print(operations.map(\.0).joined(separator: " "))
      return
    }
    print(arguments[1], count, try operation.1(count))
  }

  /// A value of a ring in a notification: `raw-acc-ei-1` of the captured frames.
  static let frame: [UInt8] = [0xA1, 0x03, 0x12, 0x03, 0x0B, 0x0D, 0x17, 0x04, 0, 0, 0, 0, 0, 0, 0, 0xEC]
  static let notification: [UInt8] = [0x1B, 0x12, 0x00] + frame

  static func nothing(_ count: Int) -> UInt64 {
    var sum: UInt64 = 0
    for number in 0..<count { sum &+= UInt64(opaque(number)) }
    return sum
  }

  /// Keeps the optimiser from doing all rounds at once.
  @inline(never) static func opaque(_ number: Int) -> Int { number }

  static func parseATT(_ count: Int) throws(WireError) -> UInt64 {
    var machine = ATTClientMachine()
    var sum: UInt64 = 0
    for number in 0..<count {
      _ = opaque(number)
      _ = try machine.receive(notification.span, now: MonotonicTime(nanoseconds: 0)) {
        sum &+= UInt64($0.value.count)
      }
    }
    return sum
  }

  static func decodeRing(_ count: Int) throws(WireError) -> UInt64 {
    var sum: UInt64 = 0
    for number in 0..<count {
      _ = opaque(number)
      sum &+= try decode(frame.span)
    }
    return sum
  }

  static func decode(_ value: Span<UInt8>) throws(WireError) -> UInt64 {
    switch try RingRawSample(decoding: RingFrame(validating: value)) {
    case .accelerometer(let a): UInt64(UInt16(bitPattern: a.x))
    case .ppg(let p): UInt64(p.value)
    case .spO2(let s): UInt64(s.value)
    case .unknown: 0
    }
  }

  static func parseAndDecode(_ count: Int) throws(WireError) -> UInt64 {
    var machine = ATTClientMachine()
    var sum: UInt64 = 0
    for number in 0..<count {
      _ = opaque(number)
      _ = try machine.receive(notification.span, now: MonotonicTime(nanoseconds: 0)) {
        sum &+= (try? decode($0.value)) ?? 0
      }
    }
    return sum
  }

  /// Flags, a list of services, a name: 27 octets.
  static func parseAdvertising(_ count: Int) throws(WireError) -> UInt64 {
    let data: [UInt8] =
      [2, 0x01, 0x06, 5, 0x03, 0x0D, 0x18, 0x0F, 0x18, 10, 0x09] + Array("R02_A1B2x".utf8)
      + [6, 0xFF, 0x4C, 0x00, 1, 2, 3]
    var sum: UInt64 = 0
    for number in 0..<count {
      _ = opaque(number)
      try AdvertisingData(data.span).forEach { sum &+= UInt64($1.count) }
    }
    return sum
  }

  static func writeRecord(_ count: Int) -> UInt64 {
    let writer = BTSnoopWriter()
    var record = [UInt8]()
    record.reserveCapacity(128)
    var sum: UInt64 = 0
    for number in 0..<count {
      record.removeAll(keepingCapacity: true)
      record.append(addingCapacity: writer.recordByteCount(l2capPayload: notification.count)) { output in
        writer.encode(
          l2capPayload: notification.span, handle: ConnectionHandle(0x40), direction: .controllerToHost,
          at: ReceiveTime(nanoseconds: Int64(opaque(number))), into: &output)
      }
      sum &+= UInt64(record.count)
    }
    return sum
  }

  // MARK: ACL

  /// The ACL packets of an ATT PDU, without their H4 type octet, cut after so many octets.
  static func packets(_ pdu: [UInt8], every byteCount: Int) -> [[UInt8]] {
    var rest = ([UInt8(pdu.count & 0xFF), UInt8(pdu.count >> 8), 4, 0] + pdu)[...]
    var packets: [[UInt8]] = []
    while !rest.isEmpty {
      let data = Array(rest.prefix(byteCount))
      packets.append([0x40, packets.isEmpty ? 0x20 : 0x10, UInt8(data.count), 0] + data)
      rest = rest.dropFirst(byteCount)
    }
    return packets
  }

  static func recombineWhole(_ count: Int) throws -> UInt64 {
    try recombine(packets(notification, every: 251), count)
  }

  /// A value of 244 octets on a controller that takes 27 at a time.
  static func recombineFragments(_ count: Int) throws -> UInt64 {
    try recombine(packets([0x1B, 0x12, 0x00] + [UInt8](repeating: 7, count: 244), every: 27), count)
  }

  static func recombine(_ packets: [[UInt8]], _ count: Int) throws -> UInt64 {
    var recombiner = L2CAPRecombiner()
    var sum: UInt64 = 0
    for number in 0..<count {
      _ = opaque(number)
      for index in packets.indices {
        let octets = packets[index]
        let view = try ACLPacket(validating: octets.span)
        try recombiner.receive(view) { frame in
          let count = frame.payload.count
          sum &+= UInt64(count)
        }
      }
    }
    return sum
  }
}
