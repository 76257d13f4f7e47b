import BLEDissector
import BLEHost
import BLEPacketLog
import BLEStack
import BLEWire
import SensorSessions

/// Devices of a log that advertise sensor values.
struct AdvertisedDevices: ~Copyable {
  private static let deviceLimit = Limit(
    64, "devices of a log whose advertised values are imported", by: .file,
    whenFull: "further ones are left out",
    counted: "message and exit status")
  /// Minimum time between repetitions. An equal value that is repeated sooner is the same advertisement on
  /// another channel or in another event.
  private static let shortestRepetition = TimeSpan(nanoseconds: 1_000_000_000)

  /// The last value of a device.
  private struct Last {
    var octets: [UInt8]
    var time: ReceiveTime
  }

  private var reports = AdvertisingReportAssembler()
  private(set) var names: [LogDevice: String] = [:]
  /// Devices with values, in the order of the log.
  private(set) var all: [LogDevice] = []
  private(set) var omittedCount = 0
  private var last: [LogDevice: Last] = [:]

  /// Processes the next record. Calls `body` for each advertised reading with its device, and whether it is a
  /// repetition.
  mutating func take(
    _ record: borrowing PacketRecord,
    _ body: (_ reading: AdvertisedReading, _ device: LogDevice, _ isRepeated: Bool) -> Void = { _, _, _ in }
  ) {
    // The packet has the event code, the length, and the parameters from the subevent on.
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
