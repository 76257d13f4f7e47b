import BLEHost
import BLEWire
import Recording
import Testing

@testable import LiveView
import Physiology

/// Screens of the live view, compared with screens written by hand.
struct LiveScreenTests {
  /// One sawtooth: 20 columns up, 20 down.
  private static let wave: [LiveExtremes?] = (0..<40).map { column in
    let value = Float(1000 + 10 * min(column, 39 - column))
    return LiveExtremes(value, value)
  }

  private static func device() -> LiveDevice {
    var device = LiveDevice("70:CB:0D:00:A1:B2")
    device.name = "R02_A1B2"
    device.state = .streaming
    device.link.intervalMilliseconds = 48.75
    device.link.latency = 4
    device.link.timeoutMilliseconds = 4200
    device.link.phy = "1m"
    device.link.mtu = 247
    device.rssi = -58
    device.battery = 64
    device.jitter = 14_140_000
    var acceleration = LiveStream("accelerometer")
    (acceleration.count, acceleration.rate, acceleration.last) = (1799, 25.04, 1.0123)
    (acceleration.unit, acceleration.decimals) = ("g", 3)
    var ppg = LiveStream("ppg")
    (ppg.count, ppg.rate, ppg.last, ppg.unit) = (1800, 25, 1234, "counts")
    ppg.wave = wave
    device.streams = [acceleration, ppg]
    device.pulse = .window(
      PulseRateWindow(
        start: ReceiveTime(nanoseconds: 0), end: ReceiveTime(nanoseconds: 8_000_000_000),
        pulse: PulseEstimate(beatsPerMinute: 61.7, quality: 0.973, method: .tracking)))
    device.counts.received = 3600
    device.counts.samples = 3599
    device.counts.malformed = 1
    device.byteCount = 1_234_567
    return device
  }

  private static func state(_ devices: LiveDevice...) -> LiveState {
    var state = LiveState()
    state.radio = "hci0, raw mode"
    state.devices = devices
    (state.elapsed, state.duration, state.directory) = (72, 600, "walk")
    return state
  }

  private static func screen(
    _ state: LiveState, _ columns: Int, _ rows: Int, _ characters: LiveCharacters = .unicode
  ) -> [String] {
    LiveScreen(columns: columns, rows: rows, characters).lines(state).map(\.text)
  }

  @Test func showsARing() {
    #expect(
      Self.screen(Self.state(Self.device()), 80, 17) == [
        "R02_A1B2  70:CB:0D:00:A1:B2  hci0, raw mode                      1:12, 8:48 left",
        "streaming  interval 48.75 ms  latency 4  timeout 4.2 s  PHY 1m  MTU 247",
        String(repeating: "─", count: 80),
        "accelerometer   25.0 Hz  1799  1.012 g",
        "", "", "", "",
        "ppg             25.0 Hz  1800     1234                         1000 to 1190, 2 s",
        "                                                                  ⢀⡠⠔⠊⠑⠢⢄⡀      ",
        "                                                               ⢀⠤⠒⠁      ⠈⠒⠤⡀   ",
        "                                                            ⡠⠔⠊⠁            ⠈⠑⠢⢄",
        String(repeating: "─", count: 80),
        "pulse 62 /min, quality 0.97  battery 64 %  jitter p99 14.1 ms",
        "0 dropped of 3600  1 malformed",
        "1.2 MB in walk  Ctrl-C ends",
      ])
  }

  /// The last frame, which stays on the screen.
  @Test func tellsThatARecordingHasEnded() {
    var state = Self.state(Self.device())
    state.isOver = true
    let lines = Self.screen(state, 80, 17)
    #expect(lines[0].hasSuffix("hci0, raw mode   " + String(repeating: " ", count: 30) + "1:12"))
    #expect(lines.last == "1.2 MB in walk  ended")
    #expect(lines[1] == "link closed")
    var several = Self.state(Self.device(), Self.device())
    several.isOver = true
    #expect(Self.screen(several, 100, 9)[2].hasPrefix("R02_A1B2  link closed  pulse 62 /min"))
  }

  /// Encryption is shown before the timing. If it is not known, as in a capture without privileges, nothing
  /// is shown.
  @Test func tellsOfEncryption() {
    var device = Self.device()
    var security = LinkSecurity(isEncrypted: true, isBonded: true)
    (security.keyByteCount, security.isAuthenticated) = (16, false)
    for (security, words) in [
      (security, "encrypted (not authenticated, 16 bytes)"),
      (LinkSecurity(isEncrypted: true, isBonded: true), "encrypted"),
      (LinkSecurity(isEncrypted: false, isBonded: true), "not encrypted, though bonded"),
      (LinkSecurity(isEncrypted: false, isBonded: false), "not encrypted"),
    ] {
      device.link.security = security
      #expect(
        Self.screen(Self.state(device), 100, 17)[1].hasPrefix("streaming  \(words)  interval 48.75 ms"))
    }
  }

  /// Less important parts are left out first; the wave is next to its figures.
  @Test func fitsASmallTerminal() {
    #expect(
      Self.screen(Self.state(Self.device()), 40, 10) == [
        "R02_A1B2                 1:12, 8:48 left",
        "streaming  interval 48.75 ms  latency 4",
        String(repeating: "─", count: 40),
        "accelerometer   25.0 Hz  1.012 g",
        "ppg             25.0 Hz     1234  ⠉⠒⠒⠤⠤⣀",
        String(repeating: "─", count: 40),
        "pulse 62 /min, quality 0.97",
        "0 dropped of 3600  1 malformed",
        "1.2 MB in walk  Ctrl-C ends",
      ])
    #expect(
      Self.screen(Self.state(Self.device()), 60, 8)[3]
        == "ppg             25.0 Hz  1800     1234  ⣀⣀⠤⠤⠤⠒⠒⠒⠉⠉⠉⠉⠒⠒⠒⠤⠤⠤⣀⣀")
  }

  @Test func drawsWithoutUnicode() {
    #expect(
      Self.screen(Self.state(Self.device()), 80, 17, .ascii)[8...12] == [
        "ppg             25.0 Hz  1800     1234                         1000 to 1190, 2 s",
        "                                                                   .-''-.       ",
        "                                                               .||'      '||.   ",
        "                                                            .-'              '-.",
        String(repeating: "-", count: 80),
      ])
  }

  /// The wave fills a terminal of any size except for its last line.
  @Test(arguments: [(80, 24), (200, 50), (77, 23), (131, 43), (300, 101), (60, 19)])
  func usesTheHeight(_ columns: Int, _ rows: Int) {
    var device = Self.device()
    var spo2 = device.streams[1]
    spo2.name = "spo2"
    device.streams.append(spo2)
    #expect(Self.screen(Self.state(device), columns, rows).count == rows - 1)
    #expect(Self.screen(Self.state(device, device), columns, rows).count == rows - 1)
  }

  private static func pulse(_ count: Int) -> [LiveExtremes?] {
    (0..<count).map { column in
      let value = Float(10_800 + abs(column % 16 - 8) * 15)
      return LiveExtremes(value, value)
    }
  }

  /// Light of 10,800 to 10,920 counts that begins with other numbers: the axis fits the numbers that follow.
  @Test(arguments: [[1_635], [1_635, 65_000, 0], [1_000, 3_000, 5_000, 7_000, 9_000, 10_000, 10_500]])
  func aTransientSetsNoAxis(_ transient: [Float]) {
    for seconds in [2, 8, 19] {
      var wave = [LiveExtremes?](repeating: nil, count: 400 - 20 * seconds) + Self.pulse(20 * seconds)
      for (place, value) in transient.enumerated() {
        wave[400 - 20 * seconds + place] = LiveExtremes(value, value)
      }
      let range = LiveWave.range(wave, unit: "counts", columnSeconds: 0.05)
      #expect(range == 10_800...10_920, "\(seconds) s")
    }
  }

  /// A later transient is an outlier. In a stream with no other values it is all there is to show.
  @Test func oneOutlierSetsNoAxis() {
    var wave = Self.pulse(200)
    wave[100] = LiveExtremes(0, 65_000)
    #expect(LiveWave.range(wave, unit: "counts", columnSeconds: 0.05) == 10_800...10_920)
    let begin = [nil, nil, nil, nil, nil, nil, nil, LiveExtremes(10, 20)] as [LiveExtremes?]
    #expect(LiveWave.range(begin, unit: "counts", columnSeconds: 0.05) == 10...20)
  }

  /// A hand at rest moves by ±7 mg, which must look small.
  @Test(arguments: [("g", Float(1)), ("mg", 1_000)]) func aRestingHandIsAtRest(_ unit: String, _ one: Float)
    throws
  {
    let wave = (0..<160).map { Optional(LiveExtremes(one * 0.993, one * ($0 % 2 == 0 ? 0.995 : 1.007))) }
    let range = try #require(LiveWave.range(wave, unit: unit, columnSeconds: 0.05))
    #expect(abs(range.upperBound - range.lowerBound - Double(one) / 4) < Double(one) * 1e-6)
    #expect(range.lowerBound < Double(one) * 0.993 && range.upperBound > Double(one) * 1.007)
  }

  /// The dots of a trace are joined: from 0 to 11 and back, across one column without a sample, but not
  /// across a gap of seven.
  @Test func joinsATrace() {
    func draw(_ values: [Float?]) -> [String] {
      LiveWave.draw(
        values.map { $0.map { LiveExtremes($0, $0) } }, in: 0...11, width: values.count / 2, height: 3,
        .unicode)
    }
    #expect(draw([0, 11]) == ["⢸", "⡜", "⡇"])
    let gap = draw([0] + [Float?](repeating: nil, count: 6) + [11])
    #expect(gap == ["   ⠈", "    ", "⡀   "])
    let joined = draw([0] + [Float?](repeating: nil, count: 4) + [11])
    #expect(joined.reduce(0) { $0 + dots($1) } >= 12)
  }

  private func dots(_ line: String) -> Int {
    line.unicodeScalars.reduce(0) { $0 + ($1.value >= 0x2800 ? ($1.value - 0x2800).nonzeroBitCount : 0) }
  }

  @Test func showsSeveralDevices() {
    var lost = Self.device()
    lost.name = nil
    lost.gaps = 2
    lost.lastGap = "0x08 Connection Timeout"
    lost.state = .lost(seconds: 12, reason: "0x08 Connection Timeout", attempt: 3, pause: 4)
    lost.counts.sampleQueueDrops = 7
    lost.streams = []
    #expect(
      Self.screen(Self.state(Self.device(), lost), 100, 9) == [
        "2 devices  hci0, raw mode" + String(repeating: " ", count: 60) + "1:12, 8:48 left",
        String(repeating: "─", count: 100),
        "R02_A1B2  streaming  pulse 62 /min, quality 0.97  ppg   25.0 Hz  1800  1234",
        "                                                                                ⣀⣀⠤⠤⠤⠒⠒⠒⠉⠉⠉⠉⠒⠒⠒⠤⠤⠤⣀⣀",
        "70:CB:0D:00:A1:B2  lost for 0:12: 0x08 Connection Timeout, attempt 3 in 4 s  7 lost",
        "",
        String(repeating: "─", count: 100),
        "2.5 MB in walk  Ctrl-C ends",
      ])
  }

  @Test func tellsOfLosses() {
    var device = Self.device()
    device.state = .lost(
      seconds: 3_723, reason: "0x13 Remote User Terminated Connection", attempt: 1, pause: nil)
    device.gaps = 1
    device.lastGap = "0x08 Connection Timeout"
    device.counts.kernelQueueDrops = 3
    device.counts.packetLogDrops = 2
    device.missingTicks = 40
    let lines = Self.screen(Self.state(device), 110, 24)
    #expect(lines[1] == "lost for 1:02:03: 0x13 Remote User Terminated Connection, attempt 1")
    #expect(
      lines[lines.count - 2]
        == "5 lost of 3603: kernel queue 3, packet log 2  1 gap, last 0x08 Connection Timeout  40 ticks never came"
    )
  }

  @Test func tellsThatItLooks() {
    var state = LiveState()
    state.search = "R02_\u{1B}[2J"
    #expect(
      Self.screen(state, 40, 10) == ["looking for R02_\u{FFFD}[2J …  Ctrl-C ends"])
  }

  /// A device name may contain any characters. Widths: Unicode Standard Annex 11.
  @Test(arguments: [
    ("a\u{1B}]0;owned\u{07}", "a\u{FFFD}]0;owned\u{FFFD}"), ("\u{202E}gnir", "\u{FFFD}gnir"),
    ("line\nline\r", "line\u{FFFD}line\u{FFFD}"), ("\u{9B}31m", "\u{FFFD}31m"),
    ("👨\u{200D}👩", "👨\u{FFFD}👩"), ("☎\u{FE0F}", "☎\u{FFFD}"), ("指輪 R02", "指輪 R02"),
  ])
  func aNameIsHarmless(_ name: String, _ shown: String) throws {
    var device = Self.device()
    device.name = name
    let line = try #require(Self.screen(Self.state(device), 80, 24).first)
    #expect(line.hasPrefix(shown + "  70:CB:0D:00:A1:B2"))
    let wide = shown.unicodeScalars.filter { $0.value >= 0x3000 && $0 != "\u{FFFD}" }.count
    #expect(line.unicodeScalars.count == 80 - wide)
    #expect(Self.screen(Self.state(device), 80, 24, .ascii)[0].utf8.allSatisfy { (0x20..<0x7F).contains($0) })
  }

  /// No line is too long, and one line of the terminal is left for earlier output.
  @Test func fitsEachSize() {
    var device = Self.device()
    device.name = "指輪の長い名前" + String(repeating: "x", count: 300)
    device.streams[0].last = 1e300
    device.streams[1].wave[3] = LiveExtremes(-.greatestFiniteMagnitude, .greatestFiniteMagnitude)
    for (columns, rows) in [(1, 1), (2, 3), (13, 5), (40, 10), (80, 24), (132, 43), (200, 50), (300, 100)] {
      for state in [Self.state(device), Self.state(device, device, device), LiveState()] {
        for characters in [LiveCharacters.unicode, .ascii] {
          let lines = LiveScreen(columns: columns, rows: rows, characters).lines(state)
          #expect(lines.count <= max(1, rows - 1))
          #expect(lines.allSatisfy { $0.width <= columns && $0.width == LiveText.width($0.text) })
        }
      }
    }
  }

  @Test(arguments: [
    (["", nil, "de_DE.UTF-8"], "xterm", LiveCharacters.unicode), ([nil, "C.utf8", "C"], "xterm", .unicode),
    (["C", nil, "de_DE.UTF-8"], "xterm", .ascii), ([nil, nil, nil], "xterm", .ascii),
    ([nil, nil, "de_DE@euro"], "xterm", .ascii), ([nil, nil, "sr_RS.UTF-8@latin"], "xterm", .unicode),
    ([nil, nil, "en_US.UTF-8"], "linux", .ascii),
  ])
  func knowsWhatATerminalCanShow(
    _ locale: [String?], _ terminal: String, _ characters: LiveCharacters
  ) {
    #expect(LiveCharacters(locale: locale, terminal: terminal) == characters)
  }
}
