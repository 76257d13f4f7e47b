import BLEDissector
import BLESensors
import BLEWire
import ColmiRing
import JSONText

/// Characteristics that `ringtap decode` knows.
private let characteristics: [BluetoothUUID] = [
  .heartRateMeasurement, .bodySensorLocation, .heartRateControlPoint, .batteryLevel, .batteryPowerState,
  .batteryLevelStatus, .systemID, .pnpID, .regulatoryCertification, .modelNumber, .temperatureMeasurement,
  .temperatureType, .measurementInterval, .validRange, .rscMeasurement, .rscFeature, .cscMeasurement,
  .cscFeature, .sensorLocation, .sensorControlPoint, .plxSpotCheck, .plxContinuous, CoreUUID.bodyTemperature,
  CoreUUID.controlPoint, PolarUUID.data, PolarUUID.controlPoint,
]

/// A value as JSON, then encoded and decoded again. The first byte selects the characteristic, the second the
/// ATT operation; the frames follow.
func fuzzSensorValue(_ input: Span<UInt8>) {
  guard input.count >= 2 else { return }
  var frames: [[UInt8]] = []
  forEachPacket(input.extracting(2...)) { _, frame in
    frames.append(array(frame))
    checkValues(frame)
  }
  guard !frames.isEmpty else { return }
  var context = SensorDecoder.Context()
  context.operation = [nil, .read, .write, .notify, .indicate][Int(input[1] % 5)]
  if input[1] & 0x80 != 0 { context.sampleRate = 52 }
  if input[1] & 0x40 != 0 { context.factor = 0.244 }
  let index = Int(input[0]) % (characteristics.count + 1)
  let source: SensorDecoder.Source =
    index == characteristics.count ? .manufacturerData : .characteristic(characteristics[index])
  var line = JSONLine()
  precondition(SensorDecoder().decode(frames, of: source, context, into: &line), "not known")
  line.endLine()
  precondition(checkJSON(line.octets) == 1)
}

private func checkValues(_ value: Span<UInt8>) {
  let types: [any CharacteristicValue.Type] = [
    HeartRateMeasurement.self, BodySensorLocation.self, HeartRateCommand.self, BatteryLevel.self,
    BatteryPowerState.self, BatteryLevelStatus.self, SystemID.self, PnPID.self, RegulatoryCertification.self,
    DeviceInformationText.self, TemperatureMeasurement.self, TemperatureType.self, MeasurementInterval.self,
    MeasurementIntervalRange.self, DateTime.self, RunningSpeed.self, RunningSpeedFeatures.self,
    CyclingSpeed.self,
    CyclingSpeedFeatures.self, SensorLocation.self, SensorControlPoint.self, OximeterSpotCheck.self,
    OximeterContinuous.self, OximeterFeatures.self, CoreBodyTemperature.self, CoreAdvertisement.self,
    CoreRequest.self, CoreResponse.self, PolarAdvertisement.self, PolarFeatures.self, PolarRequest.self,
    PolarResponse.self, PolarStopEvent.self,
  ]
  for type in types { check(type, value) }
  guard let frame = try? PolarFrame(validating: value) else { return }
  var samples = 0
  frame.forEachSample { _ in samples += 1 }
  precondition(samples == (frame.layout == nil ? 0 : frame.sampleCount), "another number of samples")
}

/// Expects that a decoded value encodes to the original bytes, except for those after the last known field.
private func check<Value: CharacteristicValue>(_ type: Value.Type, _ octets: Span<UInt8>) {
  guard let value = try? Value(decoding: octets) else { return }
  let encoded = value.octets
  precondition(encoded.count == value.encodedByteCount, "\(type)")
  let again = try? Value(decoding: encoded.span)
  precondition(again?.octets == encoded, "\(type) is another one")
}

private let ringCharacteristics = [
  RingUUID.commandNotify, RingUUID.bigDataNotify, RingUUID.commandWrite, RingUUID.bigDataWrite,
]

/// Notifications on both channels of a ring: replies, logs in pieces, big data messages, and the text for
/// each packet in a log.
func fuzzRingMessages(_ input: Span<UInt8>) {
  var reassembler = RingBigDataReassembler(maximumPayloadByteCount: 512)
  var logs = RingLogKind.allCases.filter { $0 != .activity }.map { RingDayLogAssembler($0) }
  var activity = RingActivityLogAssembler()
  var temperature = RingIntervalTemperatureAssembler(daysAgo: 1)
  var said = (line: JSONLine(), count: 0)
  forEachPacket(input) { kind, packet in
    if let field = RingTranscript(packet, of: ringCharacteristics[Int(kind >> 1 & 3)], .ringToHost)?.field {
      said.line.object { $0.members([field]) }
      said.line.endLine()
      said.count += 1
    }
    if kind & 1 == 0 {
      guard let frame = try? RingFrame(validating: packet) else { return }
      _ = try? RingReply(decoding: frame)
      _ = try? RingSentFrame(decoding: frame)
      for index in logs.indices { _ = logs[index].receive(frame) }
      _ = activity.receive(frame)
    } else {
      reassembler.receive(packet) { event in
        guard case .message(let message) = event else { return }
        precondition(message.payload.count <= 512)
        if case .intervalTemperature(let packet) = try? RingBigDataReply(decoding: message) {
          _ = temperature.receive(packet)
        }
        _ = (RingFirmwareRequest(message), RingBigDataRequest(message))
      }
    }
  }
  precondition(checkJSON(said.line.octets) == said.count, "what a packet says is not one line")
  for index in logs.indices { _ = logs[index].finish() }
  _ = (activity.finish(), temperature.finish())
}
