public import BLEWire
#if !hasFeature(Embedded)
  package import JSONText
#endif

/// Opcode of a request to the control point. Unknown opcodes are kept.
public struct PolarOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let getSettings = PolarOpcode(rawValue: 1)
  public static let start = PolarOpcode(rawValue: 2)
  public static let stop = PolarOpcode(rawValue: 3)
  public static let getSDKModeSettings = PolarOpcode(rawValue: 4)
  public static let getStatus = PolarOpcode(rawValue: 5)
  public static let getSDKModeStatus = PolarOpcode(rawValue: 6)
  public static let getOfflineTrigger = PolarOpcode(rawValue: 7)
  public static let setOfflineTriggerMode = PolarOpcode(rawValue: 8)
  public static let setOfflineTriggerSettings = PolarOpcode(rawValue: 9)

  /// Whether a measurement type follows the opcode.
  public var hasType: Bool { 1...4 ~= rawValue }
}

/// Measurements that a sensor supports, as read from the control point.
///
/// Online Measurement (2024), 3.1.
public struct PolarFeatures: CharacteristicValue, BitwiseCopyable {
  /// First byte of the features. No other value of the control point begins with it.
  public static let marker: UInt8 = 0x0F
  private static let byteCount = 17

  /// Bit n is set if the sensor supports measurement type n.
  public let bits: UInt64

  public init(_ types: [PolarMeasurementType]) {
    bits = types.reduce(0) { $0 | 1 << UInt64($1.rawValue) }
  }

  /// Decodes a value.
  ///
  /// - Throws: `truncated`; `unexpectedOpcode` for another value of the control point.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .polarMeasurement)
    let marker = try reader.u8()
    guard marker == Self.marker else {
      throw WireError(.polarMeasurement, offset: 0, .unexpectedOpcode(marker))
    }
    var bits = UInt64(try reader.u8())
    for index in 1..<8 where reader.left > 0 { bits |= UInt64(try reader.u8()) << (8 * UInt64(index)) }
    self.bits = bits
  }

  public func contains(_ type: PolarMeasurementType) -> Bool { bits >> UInt64(type.rawValue) & 1 != 0 }

  public var types: [PolarMeasurementType] {
    (0..<64 as Range<UInt8>).map(PolarMeasurementType.init(rawValue:)).filter(contains)
  }

  public var encodedByteCount: Int { Self.byteCount }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(Self.marker)
    output.append(u64: bits)
    output.append(zeros: Self.byteCount - 9)
  }
}

/// Request to the control point.
///
/// Online Measurement (2024), 3.2. The response is a `PolarResponse` in an indication. The sensor ignores
/// requests unless indications are enabled.
public struct PolarRequest: CharacteristicValue {
  public var opcode: PolarOpcode
  /// Type of the measurement; valid if `opcode.hasType`.
  public var type: PolarMeasurementType
  /// Whether the sensor records to its memory instead of sending the data.
  public var isOffline: Bool
  /// Settings of a start request, each with one value.
  public var settings: [PolarSetting]
  /// Bytes that follow an opcode without a type.
  public var parameters: [UInt8]

  public init(
    _ opcode: PolarOpcode, _ type: PolarMeasurementType = .ecg, settings: [PolarSetting] = [],
    isOffline: Bool = false, parameters: [UInt8] = []
  ) {
    self.opcode = opcode
    self.type = type
    self.isOffline = isOffline
    self.settings = settings
    self.parameters = parameters
  }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .polarMeasurement)
    opcode = PolarOpcode(rawValue: try reader.u8())
    let octet = opcode.hasType ? try reader.u8() : 0
    type = PolarMeasurementType(rawValue: octet)
    isOffline = octet & 0x80 != 0
    settings = []
    parameters = []
    if opcode == .start {
      while reader.left > 0 { settings.append(try reader.setting()) }
    } else {
      parameters = (reader.offset..<value.count).map { value[$0] }
    }
  }

  public var encodedByteCount: Int {
    settings.reduce(opcode.hasType ? 2 : 1) { $0 + $1.encodedByteCount } + parameters.count
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(opcode.rawValue)
    if opcode.hasType { output.append(type.rawValue | (isOffline ? 0x80 : 0)) }
    for setting in settings { setting.encode(into: &output) }
    output.append(parameters.span)
  }
}

/// Response to a request. A long response has several parts with the same header; all parts except the last
/// have `hasMore`.
///
/// Online Measurement (2024), 3.3.
public struct PolarResponse: CharacteristicValue {
  /// First byte of every response.
  public static let marker: UInt8 = 0xF0

  public var opcode: PolarOpcode
  public var type: PolarMeasurementType
  /// Status of the request. 0 means success; the manufacturer's reference lists the other values.
  public var status: UInt8
  /// Byte that indicates further parts; `nil` if it is missing, as in some error responses.
  public var moreByte: UInt8?
  public var parameters: [UInt8]

  public init(
    to opcode: PolarOpcode, _ type: PolarMeasurementType = .ecg, status: UInt8 = 0, parameters: [UInt8] = []
  ) {
    self.opcode = opcode
    self.type = type
    self.status = status
    moreByte = 0
    self.parameters = parameters
  }

  /// Decodes a value.
  ///
  /// - Throws: `truncated`; `unexpectedOpcode` for a value that is not a response.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .polarMeasurement)
    let marker = try reader.u8()
    guard marker == Self.marker else {
      throw WireError(.polarMeasurement, offset: 0, .unexpectedOpcode(marker))
    }
    opcode = PolarOpcode(rawValue: try reader.u8())
    type = PolarMeasurementType(rawValue: try reader.u8())
    status = try reader.u8()
    moreByte = reader.left > 0 ? try reader.u8() : nil
    parameters = (reader.offset..<value.count).map { value[$0] }
  }

  public var hasMore: Bool { moreByte ?? 0 != 0 }

  /// Appends the next part of a response with `hasMore`.
  ///
  /// - Throws: `invalidValue` if the part belongs to another request.
  public mutating func append(_ next: PolarResponse) throws(WireError) {
    guard next.opcode == opcode, next.type == type else {
      throw WireError(.polarMeasurement, offset: 1, .invalidValue(UInt32(next.opcode.rawValue)))
    }
    status = next.status
    moreByte = next.moreByte
    parameters += next.parameters
  }

  /// Returns the settings in a response to `getSettings`, `getSDKModeSettings` or `start`.
  ///
  /// A single byte is reserved and not a setting.
  public func settings() throws(WireError) -> [PolarSetting] {
    guard parameters.count > 1 else { return [] }
    let octets = parameters
    var reader = FieldReader(octets.span, .polarMeasurement)
    var settings: [PolarSetting] = []
    while reader.left > 0 { settings.append(try reader.setting()) }
    return settings
  }

  public var encodedByteCount: Int { (moreByte == nil ? 4 : 5) + parameters.count }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(Self.marker)
    output.append(opcode.rawValue)
    output.append(type.rawValue)
    output.append(status)
    if let moreByte { output.append(moreByte) }
    output.append(parameters.span)
  }
}

/// Message that the sensor sends unrequested when streams have ended.
public struct PolarStopEvent: CharacteristicValue {
  public static let marker: UInt8 = 0x01

  public var types: [PolarMeasurementType]

  public init(_ types: [PolarMeasurementType]) { self.types = types }

  /// Decodes a value.
  ///
  /// - Throws: `truncated`; `unexpectedOpcode` for another value.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .polarMeasurement)
    let marker = try reader.u8()
    guard marker == Self.marker else {
      throw WireError(.polarMeasurement, offset: 0, .unexpectedOpcode(marker))
    }
    types = (1..<value.count).map { PolarMeasurementType(rawValue: value[$0]) }
  }

  public var encodedByteCount: Int { 1 + types.count }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(Self.marker)
    for type in types { output.append(type.rawValue) }
  }
}

/// Setting of a measurement: the values that a sensor supports, or the value to use.
///
/// Online Measurement (2024), 3.4: kind, number of values, values.
public struct PolarSetting: Hashable, Sendable {
  public enum Kind: UInt8, Hashable, Sendable, BitwiseCopyable {
    /// Values in hertz.
    case sampleRate = 0
    /// Values in bits.
    case resolution = 1
    /// Positive and negative limit in g, degrees per second or gauss.
    case range = 2
    /// Positive and negative limit in thousandths of these units.
    case rangeMilliUnits = 3
    case channels = 4
    /// Bit pattern of a 32-bit binary floating-point number. Only in responses to a start request.
    case conversionFactor = 5
    /// Values of 16 bytes: the encryption of an offline recording, then the key.
    case security = 6

    /// Number of bytes per value.
    public var byteCount: Int {
      switch self {
      case .sampleRate, .resolution, .range: 2
      case .rangeMilliUnits, .conversionFactor: 4
      case .channels: 1
      case .security: 16
      }
    }
  }

  public let kind: Kind
  /// Encoded values.
  let octets: [UInt8]

  /// Creates a setting.
  ///
  /// - Parameters:
  ///   - kind: kind of the setting.
  ///   - values: values, truncated to the size of the kind.
  public init(_ kind: Kind, _ values: [UInt32]) {
    self.kind = kind
    octets = values.flatMap { value in
      (0..<kind.byteCount).map { $0 < 4 ? UInt8(truncatingIfNeeded: value >> UInt32(8 * $0)) : 0 }
    }
  }

  init(_ kind: Kind, octets: [UInt8]) {
    self.kind = kind
    self.octets = octets
  }

  public static func conversionFactor(_ factor: Float) -> PolarSetting {
    PolarSetting(.conversionFactor, [factor.bitPattern])
  }

  public var count: Int { octets.count / kind.byteCount }

  /// Values as numbers. For `security`, only the first four bytes of each value.
  public var values: [UInt32] {
    stride(from: 0, to: octets.count, by: kind.byteCount).map { start in
      var value: UInt32 = 0
      for place in 0..<min(4, kind.byteCount) { value |= UInt32(octets[start + place]) << UInt32(8 * place) }
      return value
    }
  }

  /// First value, if this is a conversion factor.
  public var factor: Float? {
    guard kind == .conversionFactor, let first = values.first else { return nil }
    return Float(bitPattern: first)
  }

  public var encodedByteCount: Int { 2 + octets.count }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(kind.rawValue)
    output.append(UInt8(count))
    output.append(octets.span)
  }
}

extension FieldReader {
  /// Reads a setting.
  ///
  /// - Throws: `truncated`; `invalidValue` for an unknown kind, because its size is also unknown.
  mutating func setting() throws(WireError) -> PolarSetting {
    let code = try u8()
    guard let kind = PolarSetting.Kind(rawValue: code) else {
      throw WireError(layer, offset: offset - 1, .invalidValue(UInt32(code)))
    }
    let byteCount = Int(try u8()) * kind.byteCount
    let start = try take(byteCount)
    return PolarSetting(kind, octets: (start..<start + byteCount).map { bytes[$0] })
  }
}

#if !hasFeature(Embedded)
  /// Values written to, read from and indicated by the control point of a Polar sensor.
  package enum PolarControlPointFields {
    /// Whether a value is a request, if it is unknown which operation transferred it: features and responses have
    /// a distinctive first byte, and a list of several stopped streams cannot be a request.
    package static func isRequest(_ octets: [UInt8]) -> Bool {
      guard let first = octets.first else { return false }
      return first == PolarStopEvent.marker ? octets.count <= 2 : 2...9 ~= first
    }

    /// Adds the fields of a request.
    package static func write(request octets: [UInt8], into fields: inout FieldList) throws(WireError) {
      write(try PolarRequest(decoding: octets.span), into: &fields)
    }

    /// Adds the fields of a value that the sensor sent.
    ///
    /// - Parameter frames: the parts of a response, or one value.
    package static func write(answer frames: [[UInt8]], into fields: inout FieldList) throws(WireError) {
      let first = frames[0]
      switch first.first {
      case PolarFeatures.marker:
        let features = try PolarFeatures(decoding: first.span)
        fields.member("kind", "features")
        fields.member("measurementTypes", features.types)
      case PolarStopEvent.marker:
        let event = try PolarStopEvent(decoding: first.span)
        fields.member("kind", "event")
        fields.member("event", "onlineMeasurementStopped")
        fields.member("measurementTypes", event.types)
      default:
        var response = try PolarResponse(decoding: first.span)
        for frame in frames.dropFirst() { try response.append(try PolarResponse(decoding: frame.span)) }
        let settings = response.hasSettings ? try response.settings() : []
        write(response, settings, frameCount: frames.count, into: &fields)
      }
    }

    private static func write(_ request: PolarRequest, into fields: inout FieldList) {
      fields.member("kind", "command")
      fields.member("command", request.opcode.jsonName)
      guard request.opcode.hasType else { return }
      fields.member("measurementType", request.type.jsonName)
      fields.member("recordingType", (request.isOffline ? "offline" : "online"))
      for setting in request.settings {
        guard let value = setting.values.first else { continue }
        if let factor = setting.factor {
          fields.member("conversionFactor", Double(factor))
        } else {
          fields.member(setting.key(request.type, .one), value)
        }
      }
    }

    private static func write(
      _ response: PolarResponse, _ settings: [PolarSetting], frameCount: Int, into fields: inout FieldList
    ) {
      fields.member("kind", "response")
      fields.member("command", response.opcode.jsonName)
      if response.opcode.hasType { fields.member("measurementType", response.type.jsonName) }
      fields.member("status", name(response.status, in: statuses))
      if frameCount == 1 || response.hasMore { fields.member("more", response.hasMore) }
      for setting in settings {
        if let factor = setting.factor {
          fields.member("conversionFactor", Double(factor))
        } else {
          fields.member(setting.key(response.type, .several)) { fields in
            for value in setting.values { fields.value(value) }
          }
        }
      }
      switch response.opcode {
      case .getStatus:
        fields.object("active") { fields in
          for octet in response.parameters {
            fields.member(PolarMeasurementType(rawValue: octet).jsonName, name(octet >> 6, in: activity))
          }
        }
      case .getSDKModeStatus:
        if let state = response.parameters.first { fields.member("sdkModeOn", state != 0) }
      default: break
      }
    }

    private static let activity = ["none", "online", "offline", "onlineAndOffline"]
    private static let statuses = [
      "success", "invalidOp", "invalidType", "notSupported", "invalidLength", "invalidParameter",
      "alreadyInState",
      "invalidResolution", "invalidSampleRate", "invalidRange", "invalidMtu", "invalidChannelCount",
      "invalidState",
      "inCharger", "diskFull",
    ]
  }

  extension PolarResponse {
    fileprivate var hasSettings: Bool {
      switch opcode {
      case .getSettings, .getSDKModeSettings, .start: status == 0
      default: false
      }
    }
  }

  extension PolarOpcode {
    fileprivate var jsonName: String {
      name(
        rawValue,
        in: [
          "reserved", "getMeasurementSettings", "startMeasurement", "stopMeasurement", "getSdkModeSettings",
          "getMeasurementStatus", "getSdkModeStatus", "getOfflineTriggerStatus", "setOfflineTriggerMode",
          "setOfflineTriggerSettings",
        ])
    }
  }

  extension PolarMeasurementType {
    var jsonName: String {
      switch self {
      case .ecg: "ecg"
      case .ppg: "ppg"
      case .accelerometer: "acc"
      case .ppi: "ppi"
      case .gyroscope: "gyro"
      case .magnetometer: "mag"
      case .skinTemperature: "skinTemperature"
      case .sdkMode: "sdkMode"
      case .location: "location"
      case .pressure: "pressure"
      case .temperature: "temperature"
      case .offlineRecording: "offlineRecording"
      case .offlineHeartRate: "offlineHr"
      default: rawValue == 63 ? "unknown" : "type\(rawValue)"
      }
    }
  }

  extension PolarSetting {
    fileprivate enum Count { case one, several }

    /// Returns the key of a setting. A range is in g only for acceleration.
    fileprivate func key(_ type: PolarMeasurementType, _ count: Count) -> String {
      let plural = count == .several ? "s" : ""
      return switch kind {
      case .sampleRate: "sampleRate\(plural)Hz"
      case .resolution: "resolution\(plural)Bits"
      case .range: "range\(plural)" + (type == .accelerometer ? "G" : "Units")
      case .rangeMilliUnits: "range\(plural)MilliUnits"
      case .channels: "channels"
      case .conversionFactor: "conversionFactor"
      case .security: "security"
      }
    }
  }

  extension FieldList {
    fileprivate mutating func member(_ name: String, _ types: [PolarMeasurementType]) {
      member(name) { fields in
        for type in types { fields.value(type.jsonName) }
      }
    }
  }
#endif
