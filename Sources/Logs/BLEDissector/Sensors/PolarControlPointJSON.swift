import BLESensors
import BLEWire
package import JSONText

/// Values written to, read from and indicated by the control point of a Polar sensor.
enum PolarControlPointJSON {
  /// Adds the fields of a value.
  ///
  /// - Parameter operation: the operation that transferred the value. If the operation is unknown, the bytes
  ///   determine the format: features and responses have a distinctive first byte, and a list of several
  ///   stopped streams cannot be a request.
  static func write(
    _ frames: [[UInt8]], _ operation: SensorDecoder.Operation?, into fields: inout FieldList
  ) throws(WireError) {
    let first = frames[0]
    switch first.first {
    case _ where isRequest(first, operation):
      let request = try PolarRequest(decoding: first.span)
      write(request, into: &fields)
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

  private static func isRequest(_ octets: [UInt8], _ operation: SensorDecoder.Operation?) -> Bool {
    guard operation == nil, let first = octets.first else { return operation == .write }
    return first == PolarStopEvent.marker ? octets.count <= 2 : 2...9 ~= first
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

  /// Returns the key of a setting. A range has the unit g only for acceleration.
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

extension PolarAdvertisement: SensorValueFields {
  package func describe(into fields: inout FieldList) {
    fields.member("companyId", Self.company)
    fields.member("batteryStatusBit", isBatteryBitSet ? 1 : 0)
    fields.member("sensorContactBit", isContactBitSet ? 1 : 0)
    fields.member("frameCounter", frameCounter)
    fields.member("broadcastBit", isBroadcastBitSet ? 1 : 0)
    fields.member("fastAverageHeartRateBpm", fastAverage)
    if let slowAverage { fields.member("slowAverageHeartRateBpm", slowAverage) }
    fields.members(trailing: trailingByteCount)
  }
}
