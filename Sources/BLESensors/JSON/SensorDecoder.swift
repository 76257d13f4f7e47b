package import BLECore
import BLEWire
import ColmiRing
package import JSONText

/// Turns values of known characteristics into JSON objects: what `ringtap decode` prints.
package struct SensorDecoder {
  /// What a value belongs to.
  package enum Source: Hashable, Sendable {
    case characteristic(BluetoothUUID)
    /// Manufacturer-specific data of an advertisement, company identifier first.
    case manufacturerData
  }

  /// How a value travelled; tells requests from answers where the first octet does not.
  package enum Operation: String, Sendable {
    case read, write, notify, indicate
  }

  /// What the octets alone do not say.
  package struct Context: Sendable {
    package var operation: Operation?
    /// From the answer to a Polar sensor's start.
    package var factor: Double?
    /// Of the Polar frame before the first.
    package var previousTimestampNanoseconds: UInt64?
    /// In hertz, above 0: the nominal rate of a Polar stream.
    package var sampleRate: UInt16?

    package init() {}
  }

  package init() {}

  /// Appends one object: the decoded value, or what is wrong with it under `error`.
  ///
  /// - Parameter frames: of one value that came in pieces, or several in order; at least one.
  /// - Returns: `false`, and nothing is appended, for a source that is not known.
  package func decode(
    _ frames: [[UInt8]], of source: Source, _ context: Context = Context(), into line: inout JSONLine
  ) -> Bool {
    do throws(WireError) {
      switch source {
      case .manufacturerData: try writeAdvertisement(frames[0], into: &line)
      case .characteristic(PolarUUID.data): try PolarFramesJSON(context).write(frames, into: &line)
      case .characteristic(PolarUUID.controlPoint):
        try PolarControlPointJSON.write(frames, context.operation, into: &line)
      case .characteristic(CoreUUID.controlPoint):
        try writeCoreControlPoint(frames[0], into: &line)
      case .characteristic(.cscMeasurement) where frames.count > 1:
        try writeChange(from: frames[0], to: frames[frames.count - 1], into: &line)
      case .characteristic(let uuid):
        if let transcript = RingTranscript(frames, of: uuid) {
          write(transcript, into: &line)
          return true
        }
        guard let type = Self.types[uuid] else { return false }
        try write(type, frames, into: &line)
      }
    } catch {
      line.object { write(error, into: &$0) }
    }
    return true
  }

  /// The characteristics whose values are the same whichever way they travel.
  private static let types: [BluetoothUUID: any SensorValueJSON.Type] = [
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

  private func write<Value: SensorValueJSON>(
    _ type: Value.Type, _ frames: [[UInt8]], into line: inout JSONLine
  ) throws(WireError) {
    if frames.count == 1 {
      let octets = frames[0]
      let value = try Value(decoding: octets.span)
      line.object { value.writeMembers(into: &$0) }
      return
    }
    line.object { line in
      line.member("frames") { line in
        for frame in frames {
          line.object { line in
            do throws(WireError) {
              try Value(decoding: frame.span).writeMembers(into: &line)
            } catch { write(error, into: &line) }
          }
        }
      }
    }
  }

  private func write(_ transcript: RingTranscript, into line: inout JSONLine) {
    if let object = (try? transcript.objects())?.first {
      line.object { $0.members(object.fields) }
      return
    }
    // Answers that make no log: each says something of its own.
    line.object { line in
      line.member("frames") { line in
        for packet in transcript.packets {
          var alone = transcript
          alone.packets = [packet]
          write(alone, into: &line)
        }
      }
    }
  }

  private func writeAdvertisement(_ value: [UInt8], into line: inout JSONLine) throws(WireError) {
    if value.count >= 2, value.span.u16(at: 0) == PolarAdvertisement.company {
      let advertisement = try PolarAdvertisement(decoding: value.span)
      line.object { advertisement.writeMembers(into: &$0) }
    } else {
      let advertisement = try CoreAdvertisement(decoding: value.span)
      line.object { advertisement.writeMembers(into: &$0) }
    }
  }

  private func writeCoreControlPoint(_ value: [UInt8], into line: inout JSONLine) throws(WireError) {
    if value.first == CoreResponse.opcode {
      let response = try CoreResponse(decoding: value.span)
      line.object { response.writeMembers(into: &$0) }
    } else {
      let request = try CoreRequest(decoding: value.span)
      line.object { request.writeMembers(into: &$0) }
    }
  }

  private func writeChange(from first: [UInt8], to last: [UInt8], into line: inout JSONLine) throws(WireError)
  {
    let before = try CyclingSpeed(decoding: first.span)
    let after = try CyclingSpeed(decoding: last.span)
    line.object { line in
      if let change = after.crankChange(since: before) {
        line.member("deltaCrankRevolutions", change.revolutions)
        line.member("deltaTime1024ths", change.ticks)
        line.member("cadenceRevolutionsPerMinute", optional: change.perMinute)
      }
      if let change = after.wheelChange(since: before) {
        line.member("deltaWheelRevolutions", change.revolutions)
        line.member(after.crank == nil ? "deltaTime1024ths" : "deltaWheelTime1024ths", change.ticks)
        line.member("wheelRevolutionsPerMinute", optional: change.perMinute)
      }
    }
  }

  private func write(_ error: WireError, into line: inout JSONLine) {
    switch error.reason {
    case .truncated: line.member("error", "truncated" as String)
    case .lengthMismatch: line.member("error", "lengthMismatch" as String)
    case .checksum: line.member("error", "checksum" as String)
    case .invalidValue(let value):
      line.member("error", "outOfRange" as String)
      line.member("rawValue", value)
    case .unexpectedOpcode(let opcode):
      line.member("error", "unknownOpcode" as String)
      line.member("rawValue", opcode)
    }
  }
}

/// A value that can say itself in the members of a JSON object, units in their keys.
protocol SensorValueJSON: CharacteristicValue {
  func writeMembers(into line: inout JSONLine)
}

extension JSONLine {
  /// `null` where there is none.
  mutating func member(_ name: String, optional number: (some BinaryInteger)?) {
    key(name)
    if let number { value(number) } else { null() }
  }

  package mutating func member(_ name: String, optional number: Double?) {
    key(name)
    if let number { value(number) } else { null() }
  }

  mutating func member(_ name: String, optional text: String?) {
    key(name)
    if let text { value(text) } else { null() }
  }

  mutating func members(trailing byteCount: Int) {
    if byteCount > 0 { member("trailingBytes", byteCount) }
  }

  mutating func member(_ name: String, _ elements: (inout JSONLine) -> Void) { member(name, array: elements) }
}

/// The name of a code, or `reserved`.
func name(_ code: UInt8, in names: [String]) -> String {
  Int(code) < names.count ? names[Int(code)] : "reserved"
}
