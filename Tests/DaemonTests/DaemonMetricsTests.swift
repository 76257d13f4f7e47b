import BLEHost
import BLELinux
import BLEWire
import Foundation
import TestKit
import Testing

@testable import Daemon
import LiveView
@testable import Recording

/// The daemon's metrics, parsed by Prometheus' own Python client.
@Suite struct DaemonMetricsTests {
  private static let status: DaemonStatus = {
    var counts = DaemonStatus.Counts()
    (counts.captures, counts.failedStarts, counts.received) = (3, 7, 184_211)
    for (place, count) in [
      (.kernelQueue, 11), (.sampleQueue, 12), (.packetLog, 13), (.disk, 14), (.malformed, 2),
    ]
      as [(SessionReport.Loss.Place, Int)]
    {
      counts.loss[place] = count
    }
    counts.gaps = 5
    func device(_ name: String, _ octet: UInt64, _ counts: DaemonStatus.Counts) -> DaemonStatus.Device {
      DaemonStatus.Device(
        name: name, address: DeviceAddress(bits: octet, type: .public), sensor: "ring", directory: nil,
        counts: counts, lastProblem: nil)
    }
    var left = device("left", 1, counts)
    left.link = .streaming
    left.adapter = "hci0"
    left.battery = 67
    var stream = LiveStream("ppg")
    stream.count = 4200
    left.streams = [stream]
    var strap = device("chest", 3, DaemonStatus.Counts())
    strap.link = .streaming
    var rate = LiveStream("heart_rate")
    (rate.last, rate.silence) = (72, 14_999_999_999)
    strap.streams = [rate]
    var old = device("old", 4, DaemonStatus.Counts())
    old.link = .streaming
    rate.silence = 15_000_000_001
    old.streams = [rate]
    var lost = device("lost", 5, DaemonStatus.Counts())
    (lost.link, rate.silence) = (.lost(seconds: 1, reason: "silence", attempt: 1, pause: nil), 1)
    lost.streams = [rate]
    var unworn = device("unworn", 6, DaemonStatus.Counts())
    (unworn.link, rate.last) = (.streaming, nil)
    unworn.streams = [rate]
    return DaemonStatus(
      adapters: [
        .init(
          name: "hci0", address: DeviceAddress(bits: 0x001A_7DDA_7113, type: .public), mode: "raw",
          devices: 1),
        .init(
          name: #"unix:/tmp/a\"b"#, mode: "raw", devices: 5,
          watch: AdapterWatch.Facts(state: .failed, recoveries: 2)),
      ],
      startedAt: ReceiveTime(nanoseconds: 1_700_000_000_500_000_000),
      now: ReceiveTime(nanoseconds: 1_700_000_100_000_000_000), directory: "/data",
      freeByteCount: 21_400_000_000, removedCaptures: 9,
      publishing: DaemonStatus.Publishing(
        broker: "mqtt://b/fleet", acknowledged: 4100, confirmed: 4000, waiting: 120, behind: 1),
      devices: [left, device("far.away-2", 2, DaemonStatus.Counts()), strap, old, lost, unworn])
  }()

  @Test func areWhatPrometheusReads() async throws {
    try await withFolder { folder in
      let path = folder + "/metrics"
      try Self.status.metrics.write(toFile: path, atomically: true, encoding: .utf8)
      let families = try await Readers.run(path, script: "metrics.py")
      func value(_ family: String, _ sample: String) -> Double? {
        let members = families[family] as? [String: Any]
        return (members?["samples"] as? [String: Any])?[sample] as? Double
      }
      func type(_ family: String) -> String? { (families[family] as? [String: Any])?["type"] as? String }
      #expect(value("ringtap_start_time_seconds", "ringtap_start_time_seconds") == 1_700_000_000.5)
      #expect(value("ringtap_free_bytes", "ringtap_free_bytes") == 21.4e9)
      // A counter family's name has no suffix.
      #expect(type("ringtap_notifications") == "counter" && type("ringtap_streaming") == "gauge")
      #expect(value("ringtap_notifications", "ringtap_notifications_total,device=left") == 184_211)
      #expect(value("ringtap_notifications", "ringtap_notifications_total,device=far.away-2") == 0)
      for (queue, count) in [("kernelQueue", 11.0), ("sampleQueue", 12), ("packetLog", 13), ("disk", 14)] {
        #expect(value("ringtap_lost", "ringtap_lost_total,device=left,queue=\(queue)") == count)
      }
      #expect(value("ringtap_gaps", "ringtap_gaps_total,device=left") == 5)
      #expect(value("ringtap_malformed", "ringtap_malformed_total,device=left") == 2)
      #expect(value("ringtap_captures", "ringtap_captures_total,device=left") == 3)
      #expect(value("ringtap_failed_starts", "ringtap_failed_starts_total,device=left") == 7)
      #expect(value("ringtap_captures_removed", "ringtap_captures_removed_total") == 9)
      #expect(value("ringtap_streaming", "ringtap_streaming,device=left") == 1)
      #expect(value("ringtap_streaming", "ringtap_streaming,device=far.away-2") == 0)
      #expect(value("ringtap_rows", "ringtap_rows,device=left,table=ppg") == 4200)
      #expect(value("ringtap_battery_percent", "ringtap_battery_percent,device=left") == 67)
      #expect(value("ringtap_battery_percent", "ringtap_battery_percent,device=far.away-2") == nil)
      #expect(value("ringtap_published_rows", "ringtap_published_rows") == 4100)
      #expect(value("ringtap_confirmed_rows", "ringtap_confirmed_rows") == 4000)
      #expect(value("ringtap_waiting_rows", "ringtap_waiting_rows") == 120)
      #expect(value("ringtap_captures_behind", "ringtap_captures_behind") == 1)
      // Stale values, values of lost links, and values of a strap that is not worn are not exported.
      let rates = (families["ringtap_heart_rate_bpm"] as? [String: Any])?["samples"] as? [String: Double]
      #expect(rates == ["ringtap_heart_rate_bpm,device=chest": 72])
      #expect(
        value("ringtap_adapter_up", "ringtap_adapter_up,adapter=hci0,address=00:1A:7D:DA:71:13") == 1)
      let other = #"adapter=unix:/tmp/a\"b"#
      #expect(value("ringtap_adapter_up", "ringtap_adapter_up,\(other)") == 0)
      #expect(value("ringtap_adapter_devices", "ringtap_adapter_devices,\(other)") == 5)
      #expect(type("ringtap_adapter_recoveries") == "counter")
      #expect(
        value("ringtap_adapter_recoveries", "ringtap_adapter_recoveries_total,\(other)") == 2)
      #expect(value("ringtap_device_adapter", "ringtap_device_adapter,adapter=hci0,device=left") == 1)
      #expect(families.count == 22)
    }
  }
}
