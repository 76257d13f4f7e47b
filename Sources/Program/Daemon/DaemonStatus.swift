package import BLEHost
import BLELinux
package import BLEWire
package import JSONText
package import LiveView
package import Recording

/// The state of a daemon, for `ringtap status` and Prometheus.
package struct DaemonStatus: Sendable {
  /// Counts since the daemon started.
  package struct Counts: Hashable, Sendable {
    /// Number of captures that have ended.
    package var captures = 0
    /// Number of failed attempts to start a capture, for example because the device was not found.
    package var failedStarts = 0
    /// Number of received notifications.
    package var received = 0
    package var loss = SessionReport.Loss()
    /// Number of lost links.
    package var gaps = 0

    package var malformed: Int { loss.malformed }
    package var lost: Int { loss.total }

    mutating func take(_ report: SessionReport) {
      captures += 1
      received += report.received
      loss += report.lost
      gaps += report.gapCount
    }
  }

  package struct Device: Sendable {
    package var name: String
    package var address: DeviceAddress
    package var sensor: String
    /// Name of the adapter that serves the device, such as `hci0`; `nil` if it waits for one.
    package var adapter: String?
    /// The directory of the current capture.
    package var directory: String?
    package var counts: Counts
    /// The latest reason why the device was not recording.
    package var lastProblem: String?
    package var link = LiveLinkState.waiting
    /// Tables with their row counts and rates; empty until the stream starts.
    package var streams: [LiveStream] = []
    /// Battery level in percent.
    package var battery: Int?

    package var isStreaming: Bool { link == .streaming }

    init(
      name: String, address: DeviceAddress, sensor: String, directory: String?, counts: Counts,
      lastProblem: String?
    ) {
      self.name = name
      self.address = address
      self.sensor = sensor
      self.directory = directory
      self.counts = counts
      self.lastProblem = lastProblem
    }

    /// Adds the state of the current capture.
    mutating func take(_ live: LiveDevice) {
      link = live.state
      streams = live.streams
      battery = live.battery
      counts.received += live.counts.received
      counts.loss.malformed += live.counts.malformed
      counts.loss.kernelQueue += live.counts.kernelQueueDrops
      counts.loss.sampleQueue += live.counts.sampleQueueDrops
      counts.loss.packetLog += live.counts.packetLogDrops
      counts.gaps += live.gaps
    }
  }

  /// An open radio.
  package struct Adapter: Hashable, Sendable {
    /// `hci0`, or a transport.
    package var name: String
    /// The controller's address; `nil` if the controller has no address.
    package var address: DeviceAddress?
    package var mode: String
    /// Number of devices that the adapter serves.
    package var devices: Int
    /// State and recoveries of a shared adapter that the daemon watches; `nil` for an adapter without a
    /// watch.
    package var watch: AdapterWatch.Facts?

    package init(
      name: String, address: DeviceAddress? = nil, mode: String, devices: Int = 0,
      watch: AdapterWatch.Facts? = nil
    ) {
      (self.name, self.address, self.mode) = (name, address, mode)
      (self.devices, self.watch) = (devices, watch)
    }

    init(_ adapter: any BLEHost.Adapter, _ watch: AdapterWatch.Facts?, devices: Int) {
      let info = adapter.kernelInfo
      self.init(
        name: adapter.name, address: info.flatMap { $0.address == .any ? nil : $0.address },
        mode: adapter.mode, devices: devices, watch: watch)
    }

    /// The state of the adapter as one word.
    package var state: String {
      switch watch?.state {
      case .answers?, nil: "up"
      case .absent?: "absent"
      case .off?: "down"
      case .recovering?: "recovering"
      case .failed?: "failed"
      }
    }
  }

  /// Progress of publishing to a broker and a collector.
  package struct Publishing: Hashable, Sendable {
    package var broker: String
    /// Number of rows of current captures that the broker has acknowledged.
    package var acknowledged: Int
    /// Number of rows that a collector has stored in files.
    package var confirmed: Int
    /// Number of counted rows that a collector has not confirmed.
    package var waiting: Int
    /// Number of ended captures that a collector has not confirmed completely.
    package var behind: Int
    /// The reason why rows are not confirmed.
    package var lastProblem: String?
  }

  /// The open radios, in the file's order.
  package var adapters: [Adapter]
  /// Names of the file's radios that are not open.
  package var missingRadios: [String] = []
  package var startedAt: ReceiveTime
  package var now: ReceiveTime
  package var directory: String
  package var freeByteCount: Int?
  package var removedCaptures: Int
  package var publishing: Publishing?
  package var devices: [Device]
}

// MARK: JSON

extension DaemonStatus {
  /// Encodes the status as one JSON object and a line feed.
  package func encode(into line: inout JSONLine) {
    line.object { line in
      if let first = adapters.first {
        line.member("adapter", first.name)
        line.member("mode", first.mode)
      }
      line.member("adapters", array: { line in for adapter in adapters { adapter.encode(into: &line) } })
      line.member("startedAtNs", startedAt)
      line.member("nowNs", now)
      line.member("directory", directory)
      if let freeByteCount { line.member("freeOctets", freeByteCount) }
      line.member("removedCaptures", removedCaptures)
      if let publishing {
        line.member("publishing") { line in
          line.member("broker", publishing.broker)
          line.member("acknowledgedRows", publishing.acknowledged)
          line.member("confirmedRows", publishing.confirmed)
          line.member("waitingRows", publishing.waiting)
          line.member("capturesBehind", publishing.behind)
          if let problem = publishing.lastProblem { line.member("lastProblem", problem) }
        }
      }
      line.member("devices", array: { line in for device in devices { device.encode(into: &line) } })
    }
    line.endLine()
  }
}

extension DaemonStatus.Adapter {
  fileprivate func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("name", name)
      if let address { line.member("address", address.description) }
      line.member("mode", mode)
      line.member("state", state)
      line.member("devices", devices)
      if let watch {
        line.member("recoveries", watch.recoveries)
        if let last = watch.lastRecovery { line.member("lastRecoveryMs", Int(last / .milliseconds(1))) }
      }
    }
  }
}

extension DaemonStatus.Device {
  fileprivate func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("name", name)
      line.member("address", address.description)
      line.member("addressType", address.type.name)
      line.member("sensor", sensor)
      if let adapter { line.member("adapter", adapter) }
      line.member("state", state)
      if let directory { line.member("directory", directory) }
      if let lastProblem { line.member("lastProblem", lastProblem) }
      if let battery { line.member("batteryPercent", battery) }
      line.member("captures", counts.captures)
      line.member("failedStarts", counts.failedStarts)
      line.member("received", counts.received)
      line.member("malformed", counts.malformed)
      line.member("gaps", counts.gaps)
      line.member("lost") { line in
        counts.loss.encode(into: &line)
      }
      line.member("streams") { line in
        for stream in streams {
          line.member(stream.name) { line in
            line.member("samples", stream.count)
            line.member("rateHz", optional: stream.rate.map { ($0 * 100).rounded() / 100 })
          }
        }
      }
    }
  }

  /// The link state as one word.
  package var state: String {
    switch link {
    case .waiting, .closed: "waiting"
    case .connecting: "connecting"
    case .discovering: "discovering"
    case .streaming: "streaming"
    case .lost: "reconnecting"
    }
  }
}

// MARK: Text

extension DaemonStatus {
  /// The status as text: a line for the daemon, then the lines for each device. If there are several
  /// adapters, or an adapter has a problem, each adapter has a line, too.
  package var lines: [String] {
    let free = freeByteCount.map { ", \(NumberText.fixed(Double($0) / 1e9, 1)) GB free" } ?? ""
    let seconds = max(0, (now - startedAt).nanoseconds) / 1_000_000_000
    let radios = adapters.map { "\($0.name), \($0.mode) mode" }
    let isSeveral = adapters.count + missingRadios.count > 1
    let title = isSeveral ? counted(adapters.count, "adapter") : radios.first ?? "no adapter"
    var lines = ["\(title), up \(Self.span(seconds)); captures in \(directory)\(free)"]
    for adapter in adapters where isSeveral || adapter.state != "up" {
      let address = adapter.address.map { " (\($0))" } ?? ""
      let recoveries = adapter.watch.map(\.recoveries) ?? 0
      lines.append(
        "\(adapter.name)\(address)  \(adapter.state)  \(adapter.mode) mode  "
          + counted(adapter.devices, "device")
          + (recoveries > 0 ? "  recovered \(counted(recoveries, "time"))" : ""))
    }
    for name in missingRadios { lines.append("\(name)  missing") }
    if let publishing {
      let behind = publishing.behind > 0 ? "; \(counted(publishing.behind, "ended capture")) waiting" : ""
      lines.append(
        "\(publishing.broker): of the current captures \(counted(publishing.confirmed, "row")) collected, "
          + "\(publishing.waiting) waiting\(behind)")
      if let problem = publishing.lastProblem { lines.append("  \(problem)") }
    }
    let widest = devices.map(\.name.count).max() ?? 0
    for device in devices {
      let name = device.name + String(repeating: " ", count: widest - device.name.count)
      var parts = [name, device.state.padded(to: 12), "\(device.counts.received) received"]
      if isSeveral { parts.insert((device.adapter ?? "-").padded(to: 5), at: 1) }
      // Samples that the sensor failed to send are not counted here, so a count of 0 is called "dropped".
      parts.append(device.counts.lost > 0 ? "\(device.counts.lost) lost" : "0 dropped")
      parts.append("\(counted(device.counts.gaps, "gap"))")
      for stream in device.streams {
        if let rate = stream.rate { parts.append("\(stream.name) \(NumberText.fixed(rate, 1))/s") }
      }
      if let battery = device.battery { parts.append("battery \(battery) %") }
      lines.append(parts.joined(separator: "  "))
      if device.state != "streaming", let problem = device.lastProblem { lines.append("  \(problem)") }
    }
    return lines
  }

  private static func span(_ seconds: Int64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60)
    return days > 0 ? "\(days) d \(hours) h" : hours > 0 ? "\(hours) h \(minutes) min" : "\(minutes) min"
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    self + String(repeating: " ", count: max(0, width - count))
  }
}

// MARK: Prometheus

extension DaemonStatus {
  /// The metrics in the text exposition format 0.0.4.
  package var metrics: String {
    var page = MetricsPage()
    page.add("ringtap_start_time_seconds", .gauge, "Start time of the daemon, since the Unix epoch.")
    page.sample("ringtap_start_time_seconds", [], NumberText.fixed(Double(startedAt.nanoseconds) / 1e9, 3))
    if let freeByteCount {
      page.add("ringtap_free_bytes", .gauge, "Free space on the disk of the captures.")
      page.sample("ringtap_free_bytes", [], "\(freeByteCount)")
    }
    page.add("ringtap_captures_removed_total", .counter, "Captures removed by the retention policy.")
    page.sample("ringtap_captures_removed_total", [], "\(removedCaptures)")
    if let publishing {
      page.add(
        "ringtap_published_rows", .gauge, "Rows of the current captures that the broker has acknowledged.")
      page.sample("ringtap_published_rows", [], "\(publishing.acknowledged)")
      page.add(
        "ringtap_confirmed_rows", .gauge, "Rows of the current captures that a collector has confirmed.")
      page.sample("ringtap_confirmed_rows", [], "\(publishing.confirmed)")
      page.add(
        "ringtap_waiting_rows", .gauge, "Rows of the current captures that no collector has confirmed.")
      page.sample("ringtap_waiting_rows", [], "\(publishing.waiting)")
      page.add(
        "ringtap_captures_behind", .gauge, "Ended captures that no collector has confirmed completely.")
      page.sample("ringtap_captures_behind", [], "\(publishing.behind)")
    }
    addAdapters(to: &page)
    let perDevice: [(String, MetricsPage.Kind, String, (Device) -> Int)] = [
      ("ringtap_streaming", .gauge, "1 while the device is streaming.", { $0.isStreaming ? 1 : 0 }),
      ("ringtap_notifications_total", .counter, "Notifications received.", \.counts.received),
      ("ringtap_malformed_total", .counter, "Malformed notifications.", \.counts.malformed),
      ("ringtap_gaps_total", .counter, "Links lost.", \.counts.gaps),
      ("ringtap_captures_total", .counter, "Captures ended.", \.counts.captures),
      ("ringtap_failed_starts_total", .counter, "Captures that failed to start.", \.counts.failedStarts),
    ]
    for (name, kind, help, value) in perDevice {
      page.add(name, kind, help)
      for device in devices { page.sample(name, [("device", device.name)], "\(value(device))") }
    }
    page.add("ringtap_lost_total", .counter, "Data missing from the tables, by where it was lost.")
    for device in devices {
      for place in SessionReport.Loss.Place.allCases {
        page.sample(
          "ringtap_lost_total", [("device", device.name), ("queue", place.rawValue)],
          "\(device.counts.loss[place])")
      }
    }
    page.add("ringtap_rows", .gauge, "Rows in the tables of the current capture.")
    for device in devices {
      for stream in device.streams {
        page.sample("ringtap_rows", [("device", device.name), ("table", stream.name)], "\(stream.count)")
      }
    }
    page.add("ringtap_battery_percent", .gauge, "Battery level last reported by the device.")
    for device in devices {
      if let battery = device.battery {
        page.sample("ringtap_battery_percent", [("device", device.name)], "\(battery)")
      }
    }
    for value in Self.values {
      page.add(value.name, .gauge, value.help)
      for device in devices {
        guard let number = device.value(of: value.table) else { continue }
        page.sample(value.name, [("device", device.name)], NumberText.fixed(number, value.decimals))
      }
    }
    return page.text
  }

  private func addAdapters(to page: inout MetricsPage) {
    func labels(_ adapter: Adapter) -> [(String, String)] {
      [("adapter", adapter.name)] + (adapter.address.map { [("address", $0.description)] } ?? [])
    }
    page.add("ringtap_adapter_up", .gauge, "1 while the adapter is open and not found in trouble.")
    for adapter in adapters {
      page.sample("ringtap_adapter_up", labels(adapter), adapter.state == "up" ? "1" : "0")
    }
    page.add("ringtap_adapter_devices", .gauge, "Devices that the adapter serves.")
    for adapter in adapters { page.sample("ringtap_adapter_devices", labels(adapter), "\(adapter.devices)") }
    page.add("ringtap_adapter_recoveries_total", .counter, "Recoveries of an adapter that did not answer.")
    for adapter in adapters {
      if let watch = adapter.watch {
        page.sample("ringtap_adapter_recoveries_total", labels(adapter), "\(watch.recoveries)")
      }
    }
    page.add("ringtap_device_adapter", .gauge, "1 for the adapter that serves the device.")
    for device in devices {
      if let adapter = device.adapter {
        page.sample("ringtap_device_adapter", [("device", device.name), ("adapter", adapter)], "1")
      }
    }
  }

  /// Values measured on a body, and the tables that contain them.
  private static let values: [(table: String, name: String, decimals: Int, help: String)] = [
    (
      "heart_rate", "ringtap_heart_rate_bpm", 0,
      "Heart rate last reported by a strap; absent without contact, without a link, and after 15 s of "
        + "silence."
    ),
    (
      "temperature", "ringtap_body_temperature_celsius", 2,
      "Body temperature last reported by a thermometer; absent off the body, without a link, and after 15 s "
        + "of silence."
    ),
  ]
}

extension DaemonStatus.Device {
  /// Age up to which a value counts as current, in nanoseconds.
  private static let freshness: Int64 = 15_000_000_000

  /// Returns the value of the table's last row; `nil` if the table has no rows or the value is too old.
  fileprivate func value(of table: String) -> Double? {
    guard isStreaming, let stream = streams.first(where: { $0.name == table }),
      let silence = stream.silence, silence <= Self.freshness
    else { return nil }
    return stream.last
  }
}

/// Builds the metrics page.
private struct MetricsPage {
  enum Kind: String { case counter, gauge }

  var text = ""

  mutating func add(_ name: String, _ kind: Kind, _ help: String) {
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  mutating func sample(_ name: String, _ labels: [(String, String)], _ value: String) {
    // The name of a transport may be a path.
    let labels = labels.map { label, value in
      let escaped = value.map { letter in
        switch letter {
        case "\\", "\"": "\\\(letter)"
        case "\n": "\\n"
        default: String(letter)
        }
      }.joined()
      return "\(label)=\"\(escaped)\""
    }.joined(separator: ",")
    text += labels.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels)} \(value)\n"
  }
}
