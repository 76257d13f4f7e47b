import BLECore
import BLEDissector
import BLESensors
import BLEWire
import ColmiRing
import SensorSessions

/// What takes the readings of the sensors in a log.
protocol LogReadingSink {
  mutating func take(_ sample: HeartRateSample)
  mutating func take(_ sample: TemperatureSample)
  mutating func take(_ sample: CyclingSample)
  mutating func take(_ sample: RingRawReading)
  /// - Parameter frame: a whole `PolarFrame`.
  mutating func take(_ frame: Span<UInt8>, of stream: PolarLogStreams.Stream, at time: ReceiveTime)
  /// A value of a sensor that is no reading, and why.
  mutating func leaveOut(_ reason: LogReadings.Reason)
}

/// The readings in one device's notifications, whatever sensor it is, in the order of a log.
struct LogReadings {
  /// Why a value is no reading.
  enum Reason: Hashable {
    case malformed(WireError)
    /// A whole frame that is none, such as a reply of a ring.
    case other
    /// It came a second time on another attribute.
    case repeated
  }

  private var source = RawSource()
  private var connection: ConnectionHandle?
  private var polar = PolarLogStreams()

  mutating func take(_ packet: borrowing DecodedPacket, into sink: inout some LogReadingSink) {
    if packet.beginsLink || packet.connectionHandle != connection {
      // On another link its ring may stream by another attribute.
      source = RawSource()
      polar = PolarLogStreams()
      connection = packet.connectionHandle
    }
    guard let att = packet.att, let value = att.value, let handle = att.handle else { return }
    if att.opcode == .writeRequest, att.uuid == PolarUUID.controlPoint { polar.takeRequest(value) }
    guard att.opcode == .handleValueNotification || att.opcode == .handleValueIndication else { return }
    do throws(WireError) {
      switch att.uuid {
      case .some(.heartRateMeasurement): sink.take(try HeartRateSample(decoding: value, at: packet.time))
      case .some(.temperatureMeasurement):
        sink.take(
          TemperatureSample(.result(try TemperatureMeasurement(decoding: value)), at: packet.time))
      case .some(.intermediateTemperature):
        sink.take(
          TemperatureSample(.intermediate(try TemperatureMeasurement(decoding: value)), at: packet.time))
      case .some(CoreUUID.bodyTemperature):
        sink.take(TemperatureSample(.core(try CoreBodyTemperature(decoding: value)), at: packet.time))
      case .some(.cscMeasurement): sink.take(try CyclingSample(decoding: value, at: packet.time))
      case .some(PolarUUID.controlPoint): polar.takeAnswer(value)
      case .some(PolarUUID.data): try polar.takeFrame(value, at: packet.time, into: &sink)
      case .some(RingUUID.commandNotify): try takeRing(value, handle, at: packet.time, into: &sink)
      case .some(RingUUID.bigDataNotify):
        // Some rings stream here; messages and their pieces are no frames.
        guard (try? RingFrame(validating: value)) != nil else { return sink.leaveOut(.other) }
        try takeRing(value, handle, at: packet.time, into: &sink)
      case nil:
        // A ring's frame has a checksum, so that its attribute need not be known.
        guard (try? RingFrame(validating: value)) != nil else { return }
        try takeRing(value, handle, at: packet.time, into: &sink)
      default: break
      }
    } catch { sink.leaveOut(.malformed(error)) }
  }

  /// As a recording takes it.
  private func takeRing(
    _ value: Span<UInt8>, _ handle: AttributeHandle, at time: ReceiveTime,
    into sink: inout some LogReadingSink
  ) throws(WireError) {
    let frame = try RingFrame(validating: value)
    guard let sample = RingRawSample(raw: frame) else { return sink.leaveOut(.other) }
    guard source.isFirst(handle) else { return sink.leaveOut(.repeated) }
    sink.take(RingRawReading(time: time, sample: sample))
  }
}
