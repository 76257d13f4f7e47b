import BLEDissector
import BLEHost
import BLEPacketLog
import BLEStack
import BLEWire
import SensorSessions

/// First pass over an imported log. Finds the connections, the devices' names, and the attributes' types.
struct ImportSurvey: ~Copyable {
  private static let deviceLimit = Limit(
    64, "devices of a log that are imported", by: .file, whenFull: "further ones are left out",
    counted: "message and exit status")

  let attributes: LogAttributes
  private(set) var names: [LogDevice: String] = [:]
  /// Devices whose values are imported, in order of appearance.
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

  /// Adds attribute types that the values prove and that are not known otherwise.
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

/// Devices in a log that advertise sensor values.
struct AdvertisedDevices: ~Copyable {
  private static let deviceLimit = Limit(
    64, "devices of a log whose advertised values are imported", by: .file,
    whenFull: "further ones are left out",
    counted: "message and exit status")
  /// Minimum time between two measurements with equal values. An equal value that arrives sooner is the same
  /// advertisement on another channel or in another advertising event.
  private static let shortestRepetition = TimeSpan(nanoseconds: 1_000_000_000)

  /// Last value of a device.
  private struct Last {
    var octets: [UInt8]
    var time: ReceiveTime
  }

  private var reports = AdvertisingReportAssembler()
  private(set) var names: [LogDevice: String] = [:]
  /// Devices with values, in order of appearance.
  private(set) var all: [LogDevice] = []
  private(set) var omittedCount = 0
  private var last: [LogDevice: Last] = [:]

  /// Processes the next record. Calls `body` for each advertised reading, with its device and whether the
  /// reading is a repetition.
  mutating func take(
    _ record: borrowing PacketRecord,
    _ body: (_ reading: AdvertisedReading, _ device: LogDevice, _ isRepeated: Bool) -> Void = { _, _, _ in }
  ) {
    // The packet starts with the event code, the length, and the subevent code.
    guard record.type == .event, record.packet.count > 3, record.packet[0] == HCIEventCode.leMeta.rawValue,
      let list = try? AdvertisingReports(validating: record.packet.extracting(2...))
    else { return }
    let time = record.time
    var reports = AdvertisingReportAssembler()
    swap(&reports, &self.reports)
    try? list.forEach { report in reports.take(report) { take($0, time, body) } }
    swap(&reports, &self.reports)
  }

  private mutating func take(
    _ report: borrowing AdvertisingReport, _ time: ReceiveTime,
    _ body: (AdvertisedReading, LogDevice, Bool) -> Void
  ) {
    let device = LogDevice.peer(report.address)
    if names.count < Self.deviceLimit.count || names[device] != nil, let name = report.name() {
      names[device] = name.text
    }
    try? AdvertisedReading.forEach(in: report, at: time) { reading, octets in
      if last[device] == nil {
        guard all.count < Self.deviceLimit.count else { return omittedCount += 1 }
        all.append(device)
      }
      let copy = [UInt8](encoding: octets.count) { $0.append(octets) }
      let former = last[device]
      let isRepeated =
        former.map {
          $0.octets == copy
            && (time - $0.time).nanoseconds.magnitude < UInt64(Self.shortestRepetition.nanoseconds)
        }
        ?? false
      if !isRepeated { last[device] = Last(octets: copy, time: time) }
      body(reading, device, isRepeated)
    }
  }
}
