import BLECore
import JSONText

/// What is written to, read from and indicated by the control point of a Polar sensor.
enum PolarControlPointJSON {
  /// - Parameter operation: where it is not known, the octets decide: features and answers have a first octet of their
  ///   own, and a list of several stopped streams is no request.
  static func write(
    _ frames: [[UInt8]], _ operation: SensorDecoder.Operation?, into line: inout JSONLine
  ) throws(WireError) {
    let first = frames[0]
    switch first.first {
    case _ where isRequest(first, operation):
      let request = try PolarRequest(decoding: first.span)
      line.object { write(request, into: &$0) }
    case PolarFeatures.marker:
      let features = try PolarFeatures(decoding: first.span)
      line.object { line in
        line.member("kind", "features" as String)
        line.member("measurementTypes", features.types)
      }
    case PolarStopEvent.marker:
      let event = try PolarStopEvent(decoding: first.span)
      line.object { line in
        line.member("kind", "event" as String)
        line.member("event", "onlineMeasurementStopped" as String)
        line.member("measurementTypes", event.types)
      }
    default:
      var response = try PolarResponse(decoding: first.span)
      for frame in frames.dropFirst() { try response.append(try PolarResponse(decoding: frame.span)) }
      let settings = response.hasSettings ? try response.settings() : []
      line.object { write(response, settings, frameCount: frames.count, into: &$0) }
    }
  }

  private static func isRequest(_ octets: [UInt8], _ operation: SensorDecoder.Operation?) -> Bool {
    guard operation == nil, let first = octets.first else { return operation == .write }
    return first == PolarStopEvent.marker ? octets.count <= 2 : 2...9 ~= first
  }

  private static func write(_ request: PolarRequest, into line: inout JSONLine) {
    line.member("kind", "command" as String)
    line.member("command", request.opcode.jsonName)
    guard request.opcode.hasType else { return }
    line.member("measurementType", request.type.jsonName)
    line.member("recordingType", (request.isOffline ? "offline" : "online") as String)
    for setting in request.settings {
      guard let value = setting.values.first else { continue }
      if let factor = setting.factor {
        line.member("conversionFactor", Double(factor))
      } else {
        line.member(setting.key(request.type, .one), value)
      }
    }
  }

  private static func write(
    _ response: PolarResponse, _ settings: [PolarSetting], frameCount: Int, into line: inout JSONLine
  ) {
    line.member("kind", "response" as String)
    line.member("command", response.opcode.jsonName)
    if response.opcode.hasType { line.member("measurementType", response.type.jsonName) }
    line.member("status", name(response.status, in: statuses))
    if frameCount == 1 || response.hasMore { line.member("more", response.hasMore) }
    for setting in settings {
      if let factor = setting.factor {
        line.member("conversionFactor", Double(factor))
      } else {
        line.member(setting.key(response.type, .several)) { line in
          for value in setting.values { line.value(value) }
        }
      }
    }
    switch response.opcode {
    case .getStatus:
      line.member(
        "active",
        object: { line in
          for octet in response.parameters {
            line.member(PolarMeasurementType(rawValue: octet).jsonName, name(octet >> 6, in: activity))
          }
        })
    case .getSDKModeStatus:
      if let state = response.parameters.first { line.member("sdkModeOn", state != 0) }
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

  /// A range is in g only where acceleration is measured.
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

extension JSONLine {
  fileprivate mutating func member(_ name: String, _ types: [PolarMeasurementType]) {
    member(name) { line in
      for type in types { line.value(type.jsonName) }
    }
  }
}

extension PolarAdvertisement: SensorValueJSON {
  func writeMembers(into line: inout JSONLine) {
    line.member("companyId", Self.company)
    line.member("batteryStatusBit", isBatteryBitSet ? 1 : 0)
    line.member("sensorContactBit", isContactBitSet ? 1 : 0)
    line.member("frameCounter", frameCounter)
    line.member("broadcastBit", isBroadcastBitSet ? 1 : 0)
    line.member("fastAverageHeartRateBpm", fastAverage)
    if let slowAverage { line.member("slowAverageHeartRateBpm", slowAverage) }
    line.members(trailing: trailingByteCount)
  }
}
