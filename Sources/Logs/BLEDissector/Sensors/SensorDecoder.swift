import BLESensors
package import BLEWire
import ColmiRing
package import JSONText

/// Decodes values of known characteristics into fields, for `ringtap decode` and `ringtap log show`.
package struct SensorDecoder {
  /// The origin of a value.
  package enum Source: Hashable, Sendable {
    case characteristic(BluetoothUUID)
    /// Manufacturer-specific data of an advertisement. The data start with the company identifier.
    case manufacturerData
  }

  /// Operation that transferred a value. The operation distinguishes requests from responses if the first
  /// byte does not.
  package enum Operation: String, Sendable {
    case read, write, notify, indicate
  }

  /// Information that the bytes of the value do not contain.
  package struct Context: Sendable {
    package var operation: Operation?
    /// The factor in a Polar sensor's response to the start command.
    package var factor: Double?
    /// Timestamp of the Polar frame that preceded the first frame.
    package var previousTimestampNanoseconds: UInt64?
    /// Nominal sample rate of a Polar stream in hertz; above 0.
    package var sampleRate: UInt16?

    package init() {}
  }

  package init() {}

  /// Appends one object: the decoded value, or an object with `error`.
  ///
  /// - Parameter frames: parts of one value, or several values in order. The list must not be empty.
  /// - Returns: `false` if the source is unknown. In this case nothing is appended.
  package func decode(
    _ frames: [[UInt8]], of source: Source, _ context: Context = Context(), into line: inout JSONLine
  ) -> Bool {
    guard let fields = fields(frames, of: source, context, for: .programs) else { return false }
    line.object { $0.members(fields.fields) }
    return true
  }

  /// Returns the members of the decoded object, for JSON and text; `nil` if the source is unknown.
  package func fields(
    _ frames: [[UInt8]], of source: Source, _ context: Context = Context(), for reader: FieldList.Reader
  ) -> FieldList? {
    var fields = FieldList(for: reader)
    do throws(WireError) {
      switch source {
      case .manufacturerData: try writeAdvertisement(frames[0], into: &fields)
      case .characteristic(PolarUUID.data):
        try PolarFrameFields(
          factor: context.factor ?? 1, after: context.previousTimestampNanoseconds,
          sampleRate: context.sampleRate
        ).write(frames, into: &fields)
      case .characteristic(PolarUUID.controlPoint):
        try writePolarControlPoint(frames, context.operation, into: &fields)
      case .characteristic(CoreUUID.controlPoint):
        try writeCoreControlPoint(frames[0], into: &fields)
      case .characteristic(.cscMeasurement) where frames.count > 1:
        try writeChange(from: frames[0], to: frames[frames.count - 1], into: &fields)
      case .characteristic(let uuid):
        if let transcript = RingTranscript(frames, of: uuid) {
          write(transcript, into: &fields)
        } else if let type = Self.types[uuid] {
          try write(type, frames, into: &fields)
        } else {
          return nil
        }
      }
      return fields
    } catch {
      return Self.fields(of: error)
    }
  }

  /// Characteristics whose values have the same format in each operation.
  private static let types: [BluetoothUUID: any SensorValueFields.Type] = [
    .heartRateMeasurement: HeartRateMeasurement.self, .bodySensorLocation: BodySensorLocation.self,
    .heartRateControlPoint: HeartRateCommand.self,
    .batteryLevel: BatteryLevel.self, .batteryPowerState: BatteryPowerState.self,
    .batteryLevelStatus: BatteryLevelStatus.self,
    .systemID: SystemID.self, .pnpID: PnPID.self, .regulatoryCertification: RegulatoryCertification.self,
    .modelNumber: DeviceInformationText.self, .serialNumber: DeviceInformationText.self,
    .firmwareRevision: DeviceInformationText.self, .hardwareRevision: DeviceInformationText.self,
    .softwareRevision: DeviceInformationText.self, .manufacturerName: DeviceInformationText.self,
    .deviceName: DeviceInformationText.self,
    .temperatureMeasurement: TemperatureMeasurement.self,
    .intermediateTemperature: TemperatureMeasurement.self,
    .temperatureType: TemperatureType.self, .measurementInterval: MeasurementInterval.self,
    .validRange: MeasurementIntervalRange.self,
    CoreUUID.bodyTemperature: CoreBodyTemperature.self,
    .rscMeasurement: RunningSpeed.self, .rscFeature: RunningSpeedFeatures.self,
    .cscMeasurement: CyclingSpeed.self, .cscFeature: CyclingSpeedFeatures.self,
    .sensorLocation: SensorLocation.self, .sensorControlPoint: SensorControlPoint.self,
    .plxSpotCheck: OximeterSpotCheck.self, .plxContinuous: OximeterContinuous.self,
    .plxFeatures: OximeterFeatures.self,
  ]

  private func write<Value: SensorValueFields>(
    _ type: Value.Type, _ frames: [[UInt8]], into fields: inout FieldList
  ) throws(WireError) {
    guard frames.count > 1 else {
      let octets = frames[0]
      return fields.members(of: try Value(decoding: octets.span))
    }
    fields.member("frames") { list in
      for frame in frames {
        do throws(WireError) {
          let value = try Value(decoding: frame.span)
          list.object { $0.members(of: value) }
        } catch {
          list.object { $0 = Self.fields(of: error) }
        }
      }
    }
  }

  private func write(_ transcript: RingTranscript, into fields: inout FieldList) {
    if let object = (try? transcript.objects())?.first {
      fields = object
      return
    }
    // The responses may belong to different logs of the ring, so decode each response separately.
    fields.member("frames") { list in
      for packet in transcript.packets {
        var alone = transcript
        alone.packets = [packet]
        list.object { write(alone, into: &$0) }
      }
    }
  }

  private func writeAdvertisement(_ value: [UInt8], into fields: inout FieldList) throws(WireError) {
    if value.count >= 2, value.span.u16(at: 0) == PolarAdvertisement.company {
      fields.members(of: try PolarAdvertisement(decoding: value.span))
    } else {
      fields.members(of: try CoreAdvertisement(decoding: value.span))
    }
  }

  private func writePolarControlPoint(
    _ frames: [[UInt8]], _ operation: Operation?, into fields: inout FieldList
  ) throws(WireError) {
    if operation.map({ $0 == .write }) ?? PolarControlPointFields.isRequest(frames[0]) {
      try PolarControlPointFields.write(request: frames[0], into: &fields)
    } else {
      try PolarControlPointFields.write(answer: frames, into: &fields)
    }
  }

  private func writeCoreControlPoint(_ value: [UInt8], into fields: inout FieldList) throws(WireError) {
    if value.first == CoreResponse.opcode {
      fields.members(of: try CoreResponse(decoding: value.span))
    } else {
      fields.members(of: try CoreRequest(decoding: value.span))
    }
  }

  private func writeChange(
    from first: [UInt8], to last: [UInt8], into fields: inout FieldList
  ) throws(WireError) {
    let before = try CyclingSpeed(decoding: first.span)
    try CyclingSpeed(decoding: last.span).describe(since: before, into: &fields)
  }

  private static func fields(of error: WireError) -> FieldList {
    var fields = FieldList()
    switch error.reason {
    case .truncated: fields.member("error", "truncated")
    case .lengthMismatch: fields.member("error", "lengthMismatch", words: "length mismatch")
    case .checksum: fields.member("error", "checksum")
    case .invalidValue(let value):
      fields.member("error", "outOfRange", words: "out of range")
      fields.member("rawValue", value)
    case .unexpectedOpcode(let opcode):
      fields.member("error", "unknownOpcode", words: "unknown opcode")
      fields.member("rawValue", opcode)
    }
    return fields
  }
}
