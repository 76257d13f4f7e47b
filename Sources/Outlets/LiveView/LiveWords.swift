import BLEHost
import BLEWire
import Physiology
import Recording

/// Text of the live view: the parts of its lines, the most important part first.
struct LiveWords {
  private let characters: LiveCharacters

  init(_ characters: LiveCharacters) { self.characters = characters }

  // MARK: Head

  func search(_ what: String?) -> LiveLine {
    LiveLine(
      "looking for \(LiveText.safe(what ?? "the device", characters)) \(characters.ellipsis)", .doubtful)
  }

  func hint(_ state: LiveState) -> LiveLine { LiveLine(state.isOver ? "ended" : "Ctrl-C ends", .faint) }

  func title(_ device: LiveDevice, _ radio: String) -> [LiveLine] {
    let name = device.name.map { LiveText.safe($0, characters) } ?? ""
    return [
      LiveLine(name, .title), LiveLine(device.address, name.isEmpty ? .title : .plain),
      LiveLine(radio, .faint),
    ]
  }

  func title(_ count: Int, _ radio: String) -> [LiveLine] {
    [LiveLine(counted(count, "device"), .title), LiveLine(radio, .faint)]
  }

  /// Returns the elapsed time, such as `1:12, 8:48 left` or `1:12, 1800 of 3000`.
  func time(_ state: LiveState, _ samples: Int) -> LiveLine {
    guard let elapsed = state.elapsed else { return LiveLine() }
    var line = LiveLine(Self.time(elapsed), .title)
    if let duration = state.duration, !state.isOver {
      line.append(", \(Self.time(max(0, duration - elapsed))) left")
    } else if let count = state.count {
      line.append(", \(samples) of \(count)")
    }
    return line
  }

  func link(_ device: LiveDevice, isOver: Bool) -> [LiveLine] {
    let link = device.link
    var parts = [state(device.state, isOver: isOver)]
    guard !isOver, [.streaming, .discovering].contains(device.state) else { return parts }
    if let security = link.security {
      parts.append(LiveLine(security.text, security.isEncrypted ? .plain : security.isBonded ? .bad : .faint))
    }
    if let interval = link.intervalMilliseconds {
      parts.append(pair("interval", number(interval, 2) + " ms"))
    }
    if let latency = link.latency { parts.append(pair("latency", "\(latency)")) }
    if let timeout = link.timeoutMilliseconds {
      parts.append(pair("timeout", number(Double(timeout) / 1000, 2) + " s"))
    }
    if let phy = link.phy { parts.append(pair("PHY", phy)) }
    if let mtu = link.mtu { parts.append(pair("MTU", "\(mtu)")) }
    if let rssi = device.rssi { parts.append(pair("found at", "\(rssi) dBm")) }
    return parts
  }

  /// - Parameter isOver: whether the recording has ended, which closes each link that is not lost.
  private func state(_ state: LiveLinkState, isOver: Bool) -> LiveLine {
    if isOver {
      guard case .lost = state else { return LiveLine("link closed", .faint) }
    }
    switch state {
    case .waiting: return LiveLine("waiting", .doubtful)
    case .connecting: return LiveLine("connecting \(characters.ellipsis)", .doubtful)
    case .discovering: return LiveLine("connected, starting the stream \(characters.ellipsis)", .doubtful)
    case .streaming: return LiveLine("streaming", .good)
    case .lost(let seconds, let reason, let attempt, let pause):
      var line = LiveLine("lost for \(Self.time(seconds)): \(reason)", .bad)
      line.append(", attempt \(attempt)" + (pause.map { " in \($0) s" } ?? ""))
      return line
    case .closed: return LiveLine("closing \(characters.ellipsis)", .faint)
    }
  }

  // MARK: Streams

  /// Returns name, rate, count and last value of a stream.
  func figures(_ stream: LiveStream, _ columns: StreamColumns) -> [LiveLine] {
    var name = LiveLine(stream.name, .label)
    name.pad(to: columns.name)
    let rate = stream.rate.map { self.rate($0) } ?? ""
    return [
      name, LiveLine(Self.padded(rate.isEmpty ? "" : rate + " Hz", 8)),
      LiveLine(Self.padded("\(stream.count)", columns.count), .faint),
      LiveLine(Self.padded(value(stream), columns.value)),
    ]
  }

  func value(_ stream: LiveStream) -> String {
    let unit = characters.unit(stream.unit)
    guard let last = stream.last else { return "-" }
    return NumberText.fixed(last, stream.decimals) + (unit.isEmpty ? "" : " " + unit)
  }

  /// Returns the range and duration of the wave, such as `512.0 to 530.5, 15 s`.
  func scale(_ stream: LiveStream, shown: Int) -> LiveLine {
    let shown = Array(stream.wave.suffix(shown))
    guard let range = stream.range(shown) else { return LiveLine() }
    let seconds = Double(shown.count) * stream.columnSeconds
    func text(_ value: Double) -> String { NumberText.fixed(value, stream.decimals) }
    return LiveLine(
      "\(text(range.lowerBound)) to \(text(range.upperBound)), \(number(seconds, 0)) s", .faint)
  }

  /// Returns the line about one device of a group.
  func member(_ device: LiveDevice, isOver: Bool) -> [LiveLine] {
    let name = device.name.map { LiveText.safe($0, characters) } ?? ""
    var parts = [LiveLine(name.isEmpty ? device.address : name, .title), state(device.state, isOver: isOver)]
    if let pulse = device.pulse { parts.append(self.pulse(pulse)) }
    if device.counts.lost > 0 { parts.append(LiveLine("\(device.counts.lost) lost", .bad)) }
    if device.gaps > 0 { parts.append(gaps(device)) }
    return parts
  }

  // MARK: Foot

  func condition(_ device: LiveDevice) -> [LiveLine] {
    var parts: [LiveLine] = []
    if let pulse = device.pulse { parts.append(self.pulse(pulse)) }
    if let battery = device.battery {
      var line = pair("battery", "")
      line.append("\(battery) %", battery < 15 ? .bad : .plain)
      parts.append(line)
    }
    if let jitter = device.jitter { parts.append(pair("jitter p99", number(jitter / 1e6, 1) + " ms")) }
    return parts
  }

  func losses(_ device: LiveDevice) -> [LiveLine] {
    let counts = device.counts
    // Samples that the sensor itself failed to send are not counted here.
    var lost = LiveLine(counts.lost > 0 ? "\(counts.lost) lost" : "0 dropped", counts.lost > 0 ? .bad : .good)
    lost.append(" of \(counts.received + counts.kernelQueueDrops)")
    let places = [
      ("kernel queue", counts.kernelQueueDrops), ("sample queue", counts.sampleQueueDrops),
      ("packet log", counts.packetLogDrops),
    ].filter { $0.1 > 0 }.map { "\($0.0) \($0.1)" }
    if !places.isEmpty { lost.append(": " + places.joined(separator: ", ")) }
    var parts = [lost]
    if device.gaps > 0 { parts.append(gaps(device)) }
    if device.missingTicks > 0 {
      parts.append(LiveLine("\(counted(device.missingTicks, "tick")) never came", .doubtful))
    }
    parts.append(LiveLine("\(counts.malformed) malformed", counts.malformed > 0 ? .doubtful : .faint))
    return parts
  }

  private func gaps(_ device: LiveDevice) -> LiveLine {
    let last = device.lastGap.map { ", last \($0)" } ?? ""
    return LiveLine("\(counted(device.gaps, "gap"))\(last)", .doubtful)
  }

  /// Returns size and directory, such as `1.2 MB in walk`. Leaves space for the hint at the end of the line.
  func files(_ state: LiveState, _ byteCount: Int, width: Int) -> LiveLine {
    var line = LiveLine(Self.bytes(byteCount))
    let room = width - line.width - 4 - 2 - hint(state).width
    if room >= 4 {
      let directory = LiveText.safe(state.directory, characters)
      line.append(" in " + LiveText.cut(directory, to: room, characters), .faint)
    }
    return line
  }

  private func pulse(_ reading: LivePulseReading) -> LiveLine {
    var line = LiveLine("pulse ", .faint)
    switch reading {
    case .waiting: line.append("measuring \(characters.ellipsis)", .faint)
    case .refused(let reason): line.append(reason, .faint)
    case .window(let window):
      if let pulse = window.pulse {
        line.append("\(number(pulse.beatsPerMinute, 0)) /min", pulse.quality >= 0.8 ? .good : .doubtful)
        line.append(", quality \(number(pulse.quality, 2))")
      } else {
        line.append("none: \(Self.reason(window.absence))", .doubtful)
      }
    }
    return line
  }

  private static func reason(_ absence: PulseAbsence?) -> String {
    (absence ?? .missingSamples).words
  }

  // MARK: Numbers

  private func pair(_ name: String, _ value: String) -> LiveLine {
    var line = LiveLine(name + " ", .faint)
    line.append(value)
    return line
  }

  /// Formats a number without trailing zeros.
  private func number(_ value: Double, _ decimals: Int) -> String {
    var text = NumberText.fixed(value, decimals)
    guard decimals > 0 else { return text }
    while text.hasSuffix("0") { text.removeLast() }
    if text.hasSuffix(".") { text.removeLast() }
    return text
  }

  private func rate(_ value: Double) -> String {
    NumberText.fixed(value, value < 10 ? 2 : 1)
  }

  /// Formats a time as `0:07`, `12:34` or `1:02:03`.
  static func time(_ seconds: Int) -> String {
    let (minutes, rest) = (seconds / 60, NumberText.padded(seconds % 60, 2))
    guard minutes >= 60 else { return "\(minutes):\(rest)" }
    return "\(minutes / 60):\(NumberText.padded(minutes % 60, 2)):\(rest)"
  }

  /// Formats a size as `812 B`, `45.1 kB` or `1.2 MB`.
  static func bytes(_ count: Int) -> String {
    var (value, unit) = (Double(count), "B")
    for larger in ["kB", "MB", "GB", "TB"] where value >= 1000 {
      (value, unit) = (value / 1000, larger)
    }
    return unit == "B" ? "\(count) B" : NumberText.fixed(value, 1) + " " + unit
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - LiveText.width(text))) + text
  }
}
