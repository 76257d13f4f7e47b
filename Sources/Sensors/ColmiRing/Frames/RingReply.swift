public import BLEWire

/// Frame of the command channel from a ring: a reply or an unsolicited frame. Ring protocol, section 3, by
/// opcode.
///
/// Replies have no request number; only the opcode shows to which request a reply belongs.
public enum RingReply: Hashable, Sendable {
  /// The ring refused the command; code 0xEE means that it does not know the command. Ring protocol, section
  /// 2.
  case refused(opcode: UInt8, code: UInt8)
  /// The ring has no log for the requested day. This is not an error.
  case noData(RingLogKind)
  /// Opcode 0x01.
  case time(RingTimeReply)
  /// Opcode 0x02.
  case camera(RingCameraEvent)
  /// Opcode 0x03.
  case battery(RingBattery)
  /// Opcode 0x04.
  case phoneNameWritten
  /// Opcode 0x0A.
  case preferences(RingPreferences)
  case preferencesWritten
  /// Opcode 0x16.
  case heartRateLogSettings(RingHeartRateLogSettings)
  case heartRateLogSettingsWritten(isEnabled: Bool)
  /// Opcode 0x1E. The values are bytes 1 and 2; two sources disagree on which byte is the heart rate.
  case realtimeHeartRate(UInt8, UInt8)
  /// Opcode 0x21.
  case goals(RingGoals)
  /// Opcodes 0x2C, 0x36, 0x38, 0x3A.
  case automaticMeasurement(RingAutomaticMeasurement)
  case automaticMeasurementWritten(RingAutomaticMeasurement)
  /// Opcode 0x2F, unsolicited after the time was set: maximum size of a notification in bytes.
  case packetSize(UInt8)
  /// Opcode 0x3B. The reference gives no layout, so the frame is not decoded.
  case touch(RingCommand)
  /// Opcode 0x3C. Contains only `bond` and `intervalTemperature`.
  case deviceSupport(RingCapabilities)
  /// Opcode 0x48.
  case todayTotals(RingDayTotals)
  /// Opcode 0x61. The meaning of its bits is not published.
  case messageFilter(RingCommand)
  /// Opcode 0x69, about twice a second.
  case measurement(RingMeasurementFrame)
  /// Opcode 0x6A.
  case measurementStopped(RingMeasurement, lastValue: UInt8)
  /// Opcode 0x73, unsolicited.
  case notification(RingNotification)
  /// Opcode 0x77.
  case sportAcknowledged
  /// Opcode 0x78, about once a second.
  case sport(RingSportSample)
  /// Opcode 0xA1, section 5.
  case raw(RingRawSample)
  /// A frame of a log, to be passed to its assembler.
  case log(RingLogKind)
  /// Setting whose layout is not published.
  case setting(RingSetting, RingCommand)
  case unknown(RingCommand)

  /// Decodes a frame.
  ///
  /// - Throws: `invalidValue` if the action in a reply about an automatic measurement is unknown.
  public init(decoding frame: borrowing RingFrame) throws(WireError) {
    if frame.isError {
      self = .refused(opcode: frame.refusedOpcode, code: frame.bytes[1])
      return
    }
    let bytes = frame.bytes
    if let kind = RingLogKind(rawValue: frame.opcode) {
      self = bytes[1] == 0xFF ? .noData(kind) : .log(kind)
    } else if let sensor = RingAutomaticSensor(rawValue: frame.opcode) {
      self = try Self.automatic(sensor, bytes)
    } else if frame.opcode == RingOpcode.touch {
      self = .touch(RingCommand(copying: frame))
    } else if frame.opcode == RingOpcode.messageFilter {
      self = .messageFilter(RingCommand(copying: frame))
    } else if frame.opcode == RingOpcode.rawStream {
      self = .raw(try RingRawSample(decoding: frame))
    } else if let reply = Self.known(bytes) {
      self = reply
    } else if let setting = RingSetting(rawValue: frame.opcode) {
      self = .setting(setting, RingCommand(copying: frame))
    } else {
      self = .unknown(RingCommand(copying: frame))
    }
  }

  private static func known(_ bytes: Span<UInt8>) -> RingReply? {
    switch bytes[0] {
    case RingOpcode.setTime: .time(RingTimeReply(bytes))
    case RingOpcode.camera: RingCameraEvent(rawValue: bytes[1]).map { .camera($0) }
    case RingOpcode.battery: .battery(RingBattery(percent: bytes[1], charging: bytes[2]))
    case RingOpcode.phoneName: .phoneNameWritten
    case RingOpcode.preferences:
      bytes[1] == RingSettingAction.write.rawValue
        ? .preferencesWritten : .preferences(RingPreferences(bytes))
    case RingOpcode.heartRateLogSettings:
      bytes[1] == RingSettingAction.write.rawValue
        ? .heartRateLogSettingsWritten(isEnabled: bytes[2] == 1)
        : .heartRateLogSettings(RingHeartRateLogSettings(bytes))
    case RingOpcode.realtimeHeartRate: .realtimeHeartRate(bytes[1], bytes[2])
    case RingOpcode.goals: .goals(RingGoals(bytes))
    case RingOpcode.packetSize: .packetSize(bytes[1])
    case RingOpcode.deviceSupport: .deviceSupport(RingCapabilities(deviceSupport: bytes))
    case RingOpcode.todayTotals: .todayTotals(RingDayTotals(bytes))
    case RingOpcode.measure: .measurement(RingMeasurementFrame(bytes))
    case RingOpcode.stopMeasuring:
      .measurementStopped(RingMeasurement(rawValue: bytes[1]), lastValue: bytes[2])
    case RingOpcode.notification: .notification(RingNotification(bytes))
    case RingOpcode.sport: .sportAcknowledged
    case RingOpcode.sportSample: .sport(RingSportSample(bytes))
    default: nil
    }
  }

  private static func automatic(
    _ sensor: RingAutomaticSensor, _ bytes: Span<UInt8>
  ) throws(WireError) -> RingReply {
    let offset = sensor == .temperature ? 2 : 1
    let measurement = RingAutomaticMeasurement(sensor, isEnabled: bytes[offset + 1] == 1)
    switch RingSettingAction(rawValue: bytes[offset]) {
    case .read: return .automaticMeasurement(measurement)
    case .write: return .automaticMeasurementWritten(measurement)
    case .delete, nil: throw WireError(.ring, offset: offset, .invalidValue(UInt32(bytes[offset])))
    }
  }
}

/// Logs that are sent in frames of the command channel, by opcode.
public enum RingLogKind: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
  case heartRate = 0x15
  case stress = 0x37
  case heartRateVariability = 0x39
  case activity = 0x43
  /// Log whose meaning is not published.
  case unnamed = 0x7A
}

/// Event of the camera mode. Ring protocol, section 3, 0x02.
public enum RingCameraEvent: UInt8, Hashable, Sendable, BitwiseCopyable {
  /// The camera mode was entered or kept alive; there was no gesture.
  case acknowledged = 0
  case entered = 1
  /// A wave or a double tap. One program ignores further gestures for 3.5 s.
  case gesture = 2
  case finished = 3
}

/// Battery state. Ring protocol, section 3, 0x03 and 0x73 0x0C.
public struct RingBattery: Hashable, Sendable, BitwiseCopyable {
  /// 0 to 100.
  public let percent: UInt8
  public let isCharging: Bool

  init(percent: UInt8, charging: UInt8) {
    self.percent = percent
    isCharging = charging == 1
  }
}

/// Daily goals. Ring protocol, section 3, 0x21. Little-endian, unlike the counters of 0x48.
public struct RingGoals: Hashable, Sendable, BitwiseCopyable {
  /// 24 bits.
  public let steps: UInt32
  /// In small calories, 24 bits.
  public let calories: UInt32
  /// 24 bits.
  public let distanceMeters: UInt32
  public let sportMinutes: UInt16
  public let sleepMinutes: UInt16

  init(_ bytes: Span<UInt8>) {
    steps = bytes.u24(at: 2)
    calories = bytes.u24(at: 5)
    distanceMeters = bytes.u24(at: 8)
    sportMinutes = bytes.u16(at: 11)
    sleepMinutes = bytes.u16(at: 13)
  }
}

/// Totals of the current day. Ring protocol, section 3, 0x48. Big-endian; 24 bits, except for the minutes.
public struct RingDayTotals: Hashable, Sendable, BitwiseCopyable {
  public let steps: UInt32
  public let runningSteps: UInt32
  /// In small calories.
  public let calories: UInt32
  public let distanceMeters: UInt32
  public let activeMinutes: UInt16

  init(_ bytes: Span<UInt8>) {
    steps = bytes.u24BE(at: 1)
    runningSteps = bytes.u24BE(at: 4)
    calories = bytes.u24BE(at: 7)
    distanceMeters = bytes.u24BE(at: 10)
    activeMinutes = bytes.u16BE(at: 13)
  }
}

/// Frame of a measurement on demand. Ring protocol, section 3, 0x69.
public struct RingMeasurementFrame: Hashable, Sendable, BitwiseCopyable {
  public struct Fault: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let none = Fault(rawValue: 0)
    /// The ring is not worn or has poor contact.
    public static let contact = Fault(rawValue: 1)
    public static let temporary = Fault(rawValue: 2)
  }

  public let measurement: RingMeasurement
  public let fault: Fault
  /// Value in the measurement's unit. It is 0 while the sensor warms up, for up to a minute.
  public let value: UInt8
  /// Time between two beats in milliseconds, little-endian. This meaning is inferred from captures. 0 before
  /// the first interval. The last value is repeated if there was no beat since the last frame.
  public let pulseIntervalMilliseconds: UInt16

  init(_ bytes: Span<UInt8>) {
    measurement = RingMeasurement(rawValue: bytes[1])
    fault = Fault(rawValue: bytes[2])
    value = bytes[3]
    pulseIntervalMilliseconds = bytes.u16(at: 6)
  }
}

/// Unsolicited notification of a ring. Ring protocol, section 3, 0x73.
public enum RingNotification: Hashable, Sendable, BitwiseCopyable {
  case newHeartRate
  case newSpO2
  case newActivity
  case newTemperature
  case sportEnded
  case newBloodSugar
  case battery(RingBattery)
  case activity(RingLiveActivity)
  /// Stress level from 0 to 100. The ring sends it after storing a measurement; inferred from captures.
  case stressStored(UInt8)
  case unknown(subtype: UInt8)

  init(_ bytes: Span<UInt8>) {
    switch bytes[1] {
    case 0x01: self = .newHeartRate
    case 0x03: self = .newSpO2
    case 0x04: self = .newActivity
    case 0x05: self = .newTemperature
    case 0x07: self = .sportEnded
    case 0x0C: self = .battery(RingBattery(percent: bytes[2], charging: bytes[3]))
    case 0x0D: self = .newBloodSugar
    case 0x12: self = .activity(RingLiveActivity(bytes))
    case 0x2C: self = .stressStored(bytes[2])
    case let subtype: self = .unknown(subtype: subtype)
    }
  }

  /// Byte 1 of the frame.
  public var subtype: UInt8 {
    switch self {
    case .newHeartRate: 0x01
    case .newSpO2: 0x03
    case .newActivity: 0x04
    case .newTemperature: 0x05
    case .sportEnded: 0x07
    case .battery: 0x0C
    case .newBloodSugar: 0x0D
    case .activity: 0x12
    case .stressStored: 0x2C
    case .unknown(let subtype): subtype
    }
  }
}

/// Today's counters, sent when they increase. Ring protocol, section 3, 0x73 0x12: big-endian, 24 bits.
public struct RingLiveActivity: Hashable, Sendable, BitwiseCopyable {
  public let steps: UInt32
  /// In small calories.
  public let calories: UInt32
  public let distanceMeters: UInt32

  init(_ bytes: Span<UInt8>) {
    steps = bytes.u24BE(at: 2)
    calories = bytes.u24BE(at: 5)
    distanceMeters = bytes.u24BE(at: 8)
  }
}

/// State of a workout in progress. Ring protocol, section 3, 0x78; one source, no capture. Probably
/// big-endian.
public struct RingSportSample: Hashable, Sendable, BitwiseCopyable {
  public let sport: RingSport
  /// Status byte, not interpreted.
  public let status: UInt8
  public let seconds: UInt16
  /// In beats per minute.
  public let heartRate: UInt8
  /// 24 bits, in an unknown unit.
  public let calories: UInt32
  public let steps: UInt32
  public let distanceMeters: UInt32

  init(_ bytes: Span<UInt8>) {
    sport = RingSport(rawValue: bytes[1])
    status = bytes[2]
    seconds = bytes.u16BE(at: 3)
    heartRate = bytes[5]
    calories = bytes.u24BE(at: 6)
    steps = bytes.u24BE(at: 9)
    distanceMeters = bytes.u24BE(at: 12)
  }
}

extension Span where Element == UInt8 {
  /// Reads a 24-bit big-endian number, as in the counters of 0x48, 0x73 and 0x78.
  fileprivate func u24BE(at offset: Int) -> UInt32 {
    UInt32(self[offset]) << 16 | UInt32(u16BE(at: offset + 1))
  }
}
