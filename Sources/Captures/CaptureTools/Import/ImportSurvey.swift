import BLEDissector
import BLEPacketLog
import BLEWire

/// The first pass over an imported log: finds its connections, the devices' names, and the attributes' types.
struct ImportSurvey: ~Copyable {
  private static let deviceLimit = Limit(
    64, "devices of a log that are imported", by: .file, whenFull: "further ones are left out",
    counted: "message and exit status")

  let attributes: LogAttributes
  private(set) var names: [LogDevice: String] = [:]
  /// Devices whose values are imported, in the order of the log.
  private(set) var devices: [LogDevice] = []
  private(set) var omittedDevices: Set<LogDevice> = []
  private var evidence: [LogDevice: AttributeEvidence] = [:]
  /// Devices that advertise values.
  private var advertised = AdvertisedDevices()
  private var statistics = LogStatistics()
  private var decoder: PacketDecoder

  init(_ attributes: LogAttributes) {
    self.attributes = attributes
    decoder = PacketDecoder(attributes)
  }

  mutating func take(_ record: borrowing PacketRecord) {
    statistics.take(record)
    advertised.take(record)
    var (devices, names, evidence, omitted) = (devices, names, evidence, omittedDevices)
    (self.devices, self.names, self.evidence, omittedDevices) = ([], [:], [:], [])
    decoder.decode(record) { packet in
      guard let att = packet.att, let device = packet.device else { return }
      if evidence[device] == nil {
        guard devices.count < Self.deviceLimit.count else {
          if omitted.count < 4 * Self.deviceLimit.count { omitted.insert(device) }
          return
        }
        devices.append(device)
      }
      evidence[device, default: AttributeEvidence()].take(packet)
      if att.opcode == .readResponse, att.uuid == .deviceName, let value = att.value {
        names[device] = String(decoding: value.indices.map { value[$0] }, as: UTF8.self)
      }
    }
    (self.devices, self.names, self.evidence, omittedDevices) = (devices, names, evidence, omitted)
  }

  /// Adds the attribute types that the values prove, for attributes whose type is not known otherwise.
  mutating func conclude() {
    for (device, evidence) in evidence {
      for (handle, uuid) in evidence.types {
        attributes.assume(uuid, at: handle, of: device, by: .payload)
      }
    }
  }

  /// Devices that advertise values, their names, and the number of values of omitted devices.
  var advertisers: (devices: [LogDevice], names: [LogDevice: String], omittedCount: Int) {
    (advertised.all, advertised.names, advertised.omittedCount)
  }

  consuming func finish() -> LogReport { statistics.finish() }
}
