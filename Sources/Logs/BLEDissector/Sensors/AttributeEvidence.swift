import BLESensors
package import BLEWire
import ColmiRing

/// Infers attribute types from values, for attributes whose types the log does not contain.
///
/// A format is accepted only if it is distinctive and every value of the attribute matches it. A ring's frame
/// has 16 bytes with a checksum and a known command. A ring's big data message has a length and a CRC. The
/// values of exactly one attribute must satisfy `HeartRateEvidence` to count as heart rates. The timestamps
/// of Polar frames must advance at the same rate as the log's timestamps.
package struct AttributeEvidence {
  private static let limit = Limit(
    256, "attributes of a device in a log that are identified by their values", by: .file,
    whenFull: "further ones stay unknown", counted: "attributes shown as handles only")

  fileprivate struct Attribute {
    var values = 0
    /// Number of ring frames with a known command.
    var knownFrames = 0
    /// Number of all ring frames.
    var frames = 0
    var bigMessages = 0
    var bigPieces = RingBigDataReassembler()
    var heartRate = HeartRateEvidence()
    var polarFrames = 0
    var polarTimes: [UInt8: (device: UInt64, time: ReceiveTime)] = [:]
    /// Total time between frames, in nanoseconds, according to the sensor's clock and to the log.
    var polarElapsed: (device: Int64, log: Int64) = (0, 0)
    var polarAnswers = 0
  }

  /// Attributes with values that the device sent, by handle.
  private var sent: [AttributeHandle: Attribute] = [:]
  /// Attributes with values that were written, by handle.
  private var written: [AttributeHandle: Attribute] = [:]

  package init() {}

  package mutating func take(_ packet: borrowing DecodedPacket) {
    guard let att = packet.att, att.uuid == nil, let value = att.value, let handle = att.handle else {
      return
    }
    switch att.opcode {
    case .handleValueNotification, .handleValueIndication:
      Self.change(handle, in: &sent) {
        $0.take(value, at: packet.time, isSent: true)
        $0.heartRate.take(att.opcode == .handleValueNotification ? value : nil, at: packet.time)
      }
    case .writeRequest, .writeCommand:
      Self.change(handle, in: &written) { $0.take(value, at: packet.time, isSent: false) }
      Self.change(handle, in: &sent) { $0.heartRate.take(nil, at: packet.time) }
    case .readResponse, .readBlobResponse:
      Self.change(handle, in: &sent) { $0.heartRate.take(nil, at: packet.time) }
    default: break
    }
  }

  private static func change(
    _ handle: AttributeHandle, in attributes: inout [AttributeHandle: Attribute],
    _ body: (inout Attribute) -> Void
  ) {
    guard attributes.count < limit.count || attributes[handle] != nil else { return }
    body(&attributes[handle, default: Attribute()])
  }

  private static func frames(_ attributes: [AttributeHandle: Attribute]) -> Int {
    attributes.values.filter(\.isRing).reduce(0) { $0 + $1.frames }
  }

  /// The inferred types of attributes.
  package var types: [(handle: AttributeHandle, uuid: BluetoothUUID)] {
    var types: [(AttributeHandle, BluetoothUUID)] = []
    func add(_ uuid: BluetoothUUID, _ attributes: [AttributeHandle: Attribute], _ isOne: (Attribute) -> Bool)
    {
      types += attributes.filter { isOne($0.value) }.map { ($0.key, uuid) }
    }
    // Frames in both directions are required, or many frames in one direction, because an 8-bit checksum may
    // match by chance.
    let frames = Self.frames(sent)
    let asked = Self.frames(written)
    if frames > 0 && asked > 0 && frames + asked >= 3 || frames >= 16 {
      add(RingUUID.commandNotify, sent, \.isRing)
      add(RingUUID.commandWrite, written, \.isRing)
    }
    add(RingUUID.bigDataNotify, sent, \.isBigData)
    add(RingUUID.bigDataWrite, written, \.isBigData)
    // A heart rate service has only one measurement attribute. If two attributes match, at least one of them
    // is no heart rate.
    if sent.values.count(where: \.heartRate.isProven) == 1 {
      add(.heartRateMeasurement, sent, \.heartRate.isProven)
    }
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
    takeRing(value, isSent: isSent)
    if isSent { takePolar(value, at: time) }
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

  private mutating func takePolar(_ value: Span<UInt8>, at time: ReceiveTime) {
    if value.count >= 4, value[0] == 0xF0, (1...3).contains(value[1]), value[2] < 16 { polarAnswers += 1 }
    guard let frame = try? PolarFrame(validating: value), frame.layout != nil, frame.sampleCount > 0 else {
      return
    }
    let former = polarTimes.updateValue((frame.timestampNanoseconds, time), forKey: frame.type.rawValue)
    guard let former else { return polarFrames += 1 }
    // The sensor's time and the log's time must advance equally, except for delays of the link.
    let (device, isBackward) = frame.timestampNanoseconds.subtractingReportingOverflow(former.device)
    let log = TimeSpan(from: former.time.nanoseconds, to: time.nanoseconds).nanoseconds
    guard !isBackward, (5_000_000..<60_000_000_000).contains(device), log < 600_000_000_000,
      abs(Int64(device) - log) < 5_000_000_000
    else { return }
    polarElapsed = (polarElapsed.device + Int64(device), polarElapsed.log + log)
    polarFrames += 1
  }

  fileprivate var isRing: Bool { values > 0 && frames == values && knownFrames * 2 >= frames }
  /// Whether a message had a matching length and a matching 16-bit CRC.
  fileprivate var isBigData: Bool { bigMessages > 0 && frames < values }

  fileprivate var isPolarData: Bool {
    values >= 3 && polarFrames == values
      && abs(polarElapsed.device - polarElapsed.log) <= 2_000_000_000 + abs(polarElapsed.log) / 10
  }
}

/// Service and properties of a characteristic that `AttributeEvidence` can infer.
package struct AttributeDeclaration: Hashable, Sendable {
  package let service: BluetoothUUID
  /// Properties of the characteristic. Core 5.4, Vol 3, Part G, 3.3.1.1.
  package let properties: CharacteristicProperties

  /// Creates a declaration; `nil` for types that cannot be inferred from values.
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
