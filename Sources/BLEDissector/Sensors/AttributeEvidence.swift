package import BLECore
import BLESensors
package import BLEWire
import ColmiRing

/// What the values of a device's attributes prove about their types, where nothing in the log says them.
///
/// A form counts where each value of the attribute has it, and hardly anything else does: a ring's frame has 16 octets with a
/// checksum and a known command, its big messages a length and a CRC; a heart rate is a length that its flags ask for,
/// with plausible numbers, about once a second; a Polar frame has a time that goes on as the log's does.
package struct AttributeEvidence {
  private static let limit = Limit(
    256, "attributes of a device in a log that are told by their values", by: .file,
    whenFull: "further ones stay unknown", counted: "attributes by their numbers alone")

  fileprivate struct Attribute {
    var values = 0
    var firstTime: ReceiveTime?
    var lastTime: ReceiveTime?
    /// Frames of a ring whose command is known, and all of them.
    var knownFrames = 0
    var frames = 0
    var bigMessages = 0
    var bigPieces = RingBigDataReassembler()
    var heartRates = 0
    var lastHeartRate: Int?
    var distinctHeartRates: Set<Int> = []
    var polarFrames = 0
    var polarTimes: [UInt8: (device: UInt64, time: ReceiveTime)] = [:]
    var polarAnswers = 0
  }

  /// Values that the device sent, and values that were written to it.
  private var sent: [AttributeHandle: Attribute] = [:]
  private var written: [AttributeHandle: Attribute] = [:]

  package init() {}

  package mutating func take(_ packet: borrowing DecodedPacket) {
    guard let att = packet.att, att.uuid == nil, let value = att.value, let handle = att.handle else {
      return
    }
    switch att.opcode {
    case .handleValueNotification, .handleValueIndication:
      Self.take(value, of: handle, at: packet.time, isSent: true, in: &sent)
    case .writeRequest, .writeCommand:
      Self.take(value, of: handle, at: packet.time, isSent: false, in: &written)
    default: break
    }
  }

  private static func take(
    _ value: Span<UInt8>, of handle: AttributeHandle, at time: ReceiveTime, isSent: Bool,
    in attributes: inout [AttributeHandle: Attribute]
  ) {
    guard attributes.count < limit.count || attributes[handle] != nil else { return }
    attributes[handle, default: Attribute()].take(value, at: time, isSent: isSent)
  }

  private static func frames(_ attributes: [AttributeHandle: Attribute]) -> Int {
    attributes.values.filter(\.isRing).reduce(0) { $0 + $1.frames }
  }

  /// The types that are proven.
  package var types: [(handle: AttributeHandle, uuid: BluetoothUUID)] {
    var types: [(AttributeHandle, BluetoothUUID)] = []
    func add(_ uuid: BluetoothUUID, _ attributes: [AttributeHandle: Attribute], _ isOne: (Attribute) -> Bool)
    {
      types += attributes.filter { isOne($0.value) }.map { ($0.key, uuid) }
    }
    // Both ways, or very often one: a checksum of 8 bits alone fits by chance.
    let frames = Self.frames(sent)
    let asked = Self.frames(written)
    if frames > 0 && asked > 0 && frames + asked >= 3 || frames >= 16 {
      add(RingUUID.commandNotify, sent, \.isRing)
      add(RingUUID.commandWrite, written, \.isRing)
    }
    add(RingUUID.bigDataNotify, sent, \.isBigData)
    add(RingUUID.bigDataWrite, written, \.isBigData)
    add(.heartRateMeasurement, sent, \.isHeartRate)
    add(PolarUUID.data, sent, \.isPolarData)
    if types.contains(where: { $0.1 == PolarUUID.data }) {
      add(PolarUUID.controlPoint, sent) { $0.values > 0 && $0.polarAnswers == $0.values }
    }
    return types
  }
}

extension AttributeEvidence.Attribute {
  fileprivate mutating func take(_ value: Span<UInt8>, at time: ReceiveTime, isSent: Bool) {
    values += 1
    firstTime = firstTime ?? time
    takeRing(value, isSent: isSent)
    if isSent {
      takeHeartRate(value)
      takePolar(value, at: time)
    }
    lastTime = time
  }

  private mutating func takeRing(_ value: Span<UInt8>, isSent: Bool) {
    if let frame = try? RingFrame(validating: value) {
      frames += 1
      let isKnown =
        isSent
        ? (try? RingReply(decoding: frame)).map { if case .unknown = $0 { false } else { true } }
        : (try? RingSentFrame(decoding: frame)).map { if case .unknown = $0 { false } else { true } }
      if isKnown ?? false { knownFrames += 1 }
    }
    var whole = 0
    bigPieces.receive(value) { if case .message(let message) = $0, message.isChecksumValid { whole += 1 } }
    bigMessages += whole
  }

  private mutating func takeHeartRate(_ value: Span<UInt8>) {
    guard value.count >= 2, value[0] & 0xE0 == 0,
      let measurement = try? HeartRateMeasurement(decoding: value)
    else { return }
    let rate = Int(measurement.beatsPerMinute)
    guard rate == 0 || (25...240).contains(rate),
      lastHeartRate.map({ abs($0 - rate) <= 40 || rate == 0 }) ?? true
    else { return }
    let intervals = measurement.rrIntervals
    for index in intervals.indices where !(200...3_000).contains(intervals[index]) { return }
    heartRates += 1
    if rate > 0 {
      lastHeartRate = rate
      if distinctHeartRates.count < 2 { distinctHeartRates.insert(rate) }
    }
  }

  private mutating func takePolar(_ value: Span<UInt8>, at time: ReceiveTime) {
    if value.count >= 4, value[0] == 0xF0, (1...3).contains(value[1]), value[2] < 16 { polarAnswers += 1 }
    guard let frame = try? PolarFrame(validating: value), frame.layout != nil, frame.sampleCount > 0 else {
      return
    }
    let former = polarTimes.updateValue((frame.timestampNanoseconds, time), forKey: frame.type.rawValue)
    guard let former else { return polarFrames += 1 }
    // The sensor's time and the log's go on by the same, but for what a link delays.
    let (device, isBackward) = frame.timestampNanoseconds.subtractingReportingOverflow(former.device)
    let log = TimeSpan(from: former.time.nanoseconds, to: time.nanoseconds).nanoseconds
    guard !isBackward, device > 0, device < 60_000_000_000, abs(Int64(device) - log) < 5_000_000_000 else {
      return
    }
    polarFrames += 1
  }

  fileprivate var isRing: Bool { values > 0 && frames == values && knownFrames * 2 >= frames }
  /// A CRC of 16 bits, behind a length that fits.
  fileprivate var isBigData: Bool { bigMessages > 0 && frames < values }

  fileprivate var isHeartRate: Bool {
    guard values >= 8, heartRates == values, distinctHeartRates.count > 1, let firstTime, let lastTime else {
      return false
    }
    let mean = TimeSpan(from: firstTime.nanoseconds, to: lastTime.nanoseconds).nanoseconds / Int64(values - 1)
    return (500_000_000...3_000_000_000).contains(mean)
  }

  fileprivate var isPolarData: Bool { values >= 3 && polarFrames == values }
}

/// Where an attribute that `AttributeEvidence` can prove belongs, and what its characteristic can do.
package struct AttributeDeclaration: Hashable, Sendable {
  package let service: BluetoothUUID
  /// Core 5.4, Vol 3, Part G, 3.3.1.1.
  package let properties: CharacteristicProperties

  /// `nil` for types that no value proves.
  package init?(of type: BluetoothUUID) {
    switch type {
    case RingUUID.commandNotify: (service, properties) = (RingUUID.commandService, .notify)
    case RingUUID.commandWrite: (service, properties) = (RingUUID.commandService, Self.written)
    case RingUUID.bigDataNotify: (service, properties) = (RingUUID.bigDataService, .notify)
    case RingUUID.bigDataWrite: (service, properties) = (RingUUID.bigDataService, Self.written)
    case .heartRateMeasurement: (service, properties) = (.heartRate, .notify)
    case PolarUUID.data: (service, properties) = (PolarUUID.service, .notify)
    case PolarUUID.controlPoint: (service, properties) = (PolarUUID.service, [.read, .write, .indicate])
    default: return nil
    }
  }

  private static let written: CharacteristicProperties = [.write, .writeWithoutResponse]
}
