import BLESensors
import BLEWire
import TestKit
import Testing

/// Encoders compared with the vectors' bytes, and decoders with damaged values.
@Suite struct CharacteristicValueTests {
  /// The type of a value; `nil` for frames of raw data, which are views.
  private static func type(of vector: SensorVector) -> (any CharacteristicValue.Type)? {
    let isWritten = vector.operation == "write"
    switch vector.characteristic {
    case "2A37": return HeartRateMeasurement.self
    case "2A38": return BodySensorLocation.self
    case "2A39": return HeartRateCommand.self
    case "2A19": return BatteryLevel.self
    case "2A1A": return BatteryPowerState.self
    case "2BED": return BatteryLevelStatus.self
    case "2A23": return SystemID.self
    case "2A50": return PnPID.self
    case "2A29": return DeviceInformationText.self
    case "2A1C", "2A1E": return TemperatureMeasurement.self
    case "2A1D": return TemperatureType.self
    case "2A21": return MeasurementInterval.self
    case "2906": return MeasurementIntervalRange.self
    case "2A53": return RunningSpeed.self
    case "2A54": return RunningSpeedFeatures.self
    case "2A55": return SensorControlPoint.self
    case "2A5B": return CyclingSpeed.self
    case "2A5C": return CyclingSpeedFeatures.self
    case "2A5E": return OximeterSpotCheck.self
    case "2A5F": return OximeterContinuous.self
    case "2A60": return OximeterFeatures.self
    case "manufacturerSpecificData":
      return vector.name.hasPrefix("polar") ? PolarAdvertisement.self : CoreAdvertisement.self
    default: break
    }
    switch vector.uuid {
    case CoreUUID.bodyTemperature: return CoreBodyTemperature.self
    case CoreUUID.controlPoint: return isWritten ? CoreRequest.self : CoreResponse.self
    case PolarUUID.controlPoint:
      if vector.operation == "read" { return PolarFeatures.self }
      if isWritten { return PolarRequest.self }
      return vector.expect["kind"] == .text("event") ? PolarStopEvent.self : PolarResponse.self
    default: return nil
    }
  }

  @Test func knowsEveryVector() {
    let unknown = SensorVector.all.filter { Self.type(of: $0) == nil && $0.uuid != PolarUUID.data }
    #expect(unknown.map(\.name) == [])
  }

  @Test(arguments: SensorVector.all.filter { $0.uuid != PolarUUID.data && $0.expect["error"] == nil })
  func givesTheOctetsBack(_ vector: SensorVector) throws {
    let type = try #require(Self.type(of: vector))
    for octets in vector.octets {
      let value = try type.init(decoding: octets.span)
      var expected = octets
      // Bytes after the last field, or the terminator of a text, are not kept.
      if let count = vector.expect["trailingBytes"]?.number { expected.removeLast(Int(count)) }
      if vector.name == "manufacturer-name-nul-terminated" { expected.removeLast() }
      #expect(value.octets == expected)
      #expect(value.encodedByteCount == expected.count)
    }
  }

  /// A prefix is either a value with fewer optional fields at its end, or an error that names the missing
  /// field.
  @Test(arguments: SensorVector.all.filter { $0.uuid != PolarUUID.data })
  func tellsTruncation(_ vector: SensorVector) throws {
    let type = try #require(Self.type(of: vector))
    for octets in vector.octets {
      for count in 0..<octets.count {
        do throws(WireError) {
          let value = try type.init(decoding: octets.span.extracting(first: count))
          // Features are always written in full.
          #expect(value.encodedByteCount <= (value is PolarFeatures ? 17 : count))
        } catch {
          #expect(error.offset <= count, "\(error)")
          if case .truncated(let needed, let available) = error.reason {
            #expect(error.offset + available == count && needed > available, "\(error)")
          }
        }
      }
    }
  }

  /// A value that decodes has a canonical form that decodes to the same value.
  @Test(arguments: SensorVector.all.filter { $0.uuid != PolarUUID.data })
  func survivesChangedOctets(_ vector: SensorVector) throws {
    let type = try #require(Self.type(of: vector))
    var generator = SeededGenerator(state: 20_601)
    for octets in vector.octets where !octets.isEmpty {
      for _ in 0..<300 {
        var changed = octets
        changed[Int.random(in: 0..<octets.count, using: &generator)] = .random(in: 0...255, using: &generator)
        changed[Int.random(in: 0..<octets.count, using: &generator)] = .random(in: 0...255, using: &generator)
        guard let value = try? type.init(decoding: changed.span) else { continue }
        let encoded = value.octets
        #expect(encoded.count == value.encodedByteCount)
        let again = try type.init(decoding: encoded.span)
        #expect(again.octets == encoded)
      }
    }
  }

  /// The fields that the flags announce, by GATT Specification Supplement, Heart Rate Measurement.
  @Test(
    arguments: [
      ("", 0, 1, 0), ("00", 1, 1, 0), ("01 48", 1, 2, 1), ("08 48", 2, 2, 0), ("08 48 01", 2, 2, 1),
      ("09 48 00 01", 3, 2, 1),
    ] as [(String, Int, Int, Int)])
  func tellsWhichFieldOfAHeartRateIsMissing(_ hex: String, offset: Int, needed: Int, available: Int) {
    let octets = octetsOf(hex)
    #expect(
      throws: WireError(.heartRate, offset: offset, .truncated(needed: needed, available: available))
    ) { try HeartRateMeasurement(decoding: octets.span) }
  }

  @Test func keepsAsManyIntervalsAsAnAttributeHolds() throws {
    let octets: [UInt8] = [0x10, 60] + (0..<510).map { UInt8(truncatingIfNeeded: $0) }
    let measurement = try HeartRateMeasurement(decoding: octets.span)
    #expect(measurement.rrIntervals.count == 255)
    #expect(measurement.octets == octets)
    #expect(measurement.rrIntervals[1] == 0x0302)
    let second = octetsOf("10 3c 0004")
    #expect(try HeartRateMeasurement(decoding: second.span).rrIntervals.seconds(0) == 1)
  }

  /// Each field, in each value that an emulated strap may send.
  @Test func buildsHeartRates() {
    let plain = HeartRateMeasurement(beatsPerMinute: 72)
    #expect(plain.octets == octetsOf("00 48"))
    let wide = HeartRateMeasurement(beatsPerMinute: 300, contact: .notDetected)
    #expect(wide.octets == octetsOf("05 2c01"))
    let full = HeartRateMeasurement(
      beatsPerMinute: 300, contact: .detected, energyExpendedKilojoules: 1234,
      rrIntervals: RRIntervals([794, 1024, 1008]))
    #expect(full.octets == octetsOf("1f2c01d2041a030004f003"))
  }

  /// In the reference's capture (section 4.2) absent fields are left out; a value of ten bytes has all of
  /// them in fixed places.
  @Test func readsBothLayoutsOfACoreTemperature() throws {
    let full = octetsOf("01 190f a40d 2f00 11 50 27")
    let fixed = try CoreBodyTemperature(decoding: full.span)
    #expect(fixed.skinHundredths == 0x0DA4)
    #expect(fixed.coreReserved == nil && fixed.quality == nil && fixed.heartRate == nil)
    let short = octetsOf("14 190f 11 50")
    let sparse = try CoreBodyTemperature(decoding: short.span)
    #expect(sparse.quality?.level == 1 && sparse.heartRate == 0x50 && sparse.skinHundredths == nil)
    let empty = octetsOf("00 ff7f")
    let none = try CoreBodyTemperature(decoding: empty.span)
    #expect(none.core == .none && none.coreTemperature == nil)
    #expect(CoreBodyTemperature(core: .none).octets == empty)
  }

  /// IEEE 11073-20601, big-endian: one certificate of the Continua Alliance (authority 2, type 1).
  @Test func readsCertificates() throws {
    let octets = octetsOf("0001 000a 02 01 0006 0100 0002 8007")
    let list = try RegulatoryCertification(decoding: octets.span)
    #expect(
      list == RegulatoryCertification([.init(authority: 2, structureType: 1, data: octetsOf("010000028007"))])
    )
    #expect(list.octets == octets)
    for count in 0..<octets.count {
      #expect(throws: WireError.self) {
        try RegulatoryCertification(decoding: octets.span.extracting(first: count))
      }
    }
  }
}
