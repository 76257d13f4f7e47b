import BLEDissector
import BLELinux
import BLEPacketLog
import BLESensors
import BLEWire
import ColmiRing
import Foundation
import JSONText
import TestKit
import Testing

@testable import CaptureTools
import Recording
import SensorSessions

/// Losses that every command reports of a log whose losses the test knows. The bytes follow the formats:
/// btsnoop, HCI, ATT, and the sensors' values.
@Suite struct LedgerTests {
  // MARK: Cut by the log's writer

  /// A log of heart rate measurements with flags, an 8-bit rate and one interval (GATT Specification
  /// Supplement, 3.106). `kept` returns how many bytes of a packet the writer kept.
  private static func heartRates(_ count: Int, kept: (Int) -> Int?) -> TestLog {
    var log = TestLog()
    for number in 0..<count {
      let value: [UInt8] = [0x16, UInt8(60 + number), 0xE8, 0x03]
      log.notify(0x12, value, at: Double(number), kept: kept(number))
    }
    return log
  }

  /// H4, ACL, L2CAP and ATT headers take 12 bytes, so every second value still has its flags and rate.
  @Test func takesWhatIsWholeOfACutHeartRate() throws {
    let log = Self.heartRates(30) { $0 % 2 == 1 ? 14 : nil }
    try log.imported([(0x12, .heartRateMeasurement)]) { capture, folder in
      #expect(capture.report.received == 30 && capture.report.lost.cut == 15)
      #expect(capture.report.lost.total == 15)
      #expect(Ledger(capture.report).lines == ["15 lost of 30: 15 cut by the log's writer"])
      #expect(column(1, of: folder + "/heart_rate.csv") == (60..<90).map { "\($0)" })
      #expect(column(1, of: folder + "/rr_intervals.csv").count == 15)
      // 16-bit rates are cut in half.
      let session = try SessionDocument.read(in: folder)
      #expect(session["lost"]?["cut"]?.integer(Int.self) == 15)
      #expect(Ledger(session) == Ledger(capture.report))
    }
  }

  /// The cut is after the handle or the flags, or before them: no part of the value is complete, but it
  /// counts as one loss.
  @Test(arguments: [0, 1, 3, 5, 8, 9, 11, 12, 13], [0, 4, 9])
  func countsWhatIsNotWhole(_ kept: Int, _ place: Int) throws {
    let log = Self.heartRates(10) { $0 == place ? kept : nil }
    try log.imported([(0x12, .heartRateMeasurement)]) { capture, folder in
      #expect(capture.report.lost.malformed == 0)
      #expect(column(1, of: folder + "/heart_rate.csv").count == 9)
      // With less than the handle left, even the link is unknown.
      #expect((kept < 3 ? capture.report.lost.packetLog : capture.report.lost.cut) == 1)
      #expect(capture.report.lost.total == 1)
    }
  }

  /// What the host wrote is none of the sensor's values, however short it was cut.
  @Test(arguments: [0, 1, 2, 14]) func countsNoCutOfTheHosts(_ kept: Int) throws {
    var log = Self.heartRates(10) { _ in nil }
    log.write(0x13, [1, 0], at: 4.5, kept: kept)
    try log.imported([(0x12, .heartRateMeasurement)]) { capture, _ in
      #expect(capture.report.received == 10 && capture.report.lost.total == 0)
    }
  }

  /// If nothing is left to import, the error names the cut packets as the reason.
  @Test func tellsOfCutsWhereNothingIsLeft() {
    let log = Self.heartRates(4) { _ in 11 }
    let error = #expect(throws: LogImport.Failure.self) {
      try log.imported([(0x12, .heartRateMeasurement)]) { _, _ in }
    }
    #expect("\(error, default: "")".hasSuffix("; the log's writer cut 4 packets short"))
  }

  /// A frame in three fragments, one of them cut, is one loss and not malformed.
  @Test(arguments: [0, 1, 2]) func countsACutFragmentOnce(_ cut: Int) throws {
    var log = Self.heartRates(3) { _ in nil }
    log.fragments(0x12, [0x16, 77, 0xE8, 0x03], at: 3, cut: cut)
    log.notify(0x12, [0x16, 78, 0xE8, 0x03], at: 4)
    try log.imported([(0x12, .heartRateMeasurement)]) { capture, folder in
      #expect(capture.report.lost.cut == 1 && capture.report.lost.total == 1)
      #expect(capture.report.received == 5)
      let rates = column(1, of: folder + "/heart_rate.csv").filter { $0 != "77" }
      #expect(rates == ["60", "61", "62", "78"])
    }
  }

  /// The same records in pcap and pcapng, which also store each packet's original length.
  @Test(arguments: ["pcap", "pcapng", "h4 in pcap"]) func readsOtherContainers(_ name: String) throws {
    let log = Self.heartRates(10) { $0 % 5 == 0 ? 14 : nil }
    let octets =
      switch name {
      case "pcap": log.pcap(linkType: 201)
      case "pcapng": log.pcapng()
      default: log.pcap(linkType: 187)
      }
    try log.imported([(0x12, .heartRateMeasurement)], octets) { capture, folder in
      #expect(capture.report.lost.cut == 2 && capture.report.received == 10)
      #expect(column(1, of: folder + "/heart_rate.csv") == (60..<70).map { "\($0)" })
    }
  }

  /// Ring frames of 16 bytes, the last a checksum, of which 14 are left: the samples are complete, the
  /// checksum is missing.
  @Test func takesWhatIsWholeOfACutRingFrame() throws {
    var log = TestLog()
    for number in 0..<150 {
      var frame: [UInt8] = [0xA1, 2, 0x2B, 0x67, 0x2B, 0x91, 0x29, 0x5D, 0x02, 0x34, 0, 0, 0, 0, 0, 0]
      frame[3] = UInt8(number)
      frame[15] = frame.reduce(0, &+)
      log.notify(0x21, frame, at: Double(number) / 50, kept: number % 7 == 3 ? 26 : nil)
    }
    try log.imported([(0x21, RingUUID.commandNotify)]) { capture, folder in
      #expect(capture.report.lost.cut == 21 && capture.report.lost.total == 21)
      #expect(column(1, of: folder + "/ppg.csv").count == 150)
    }
  }

  /// A log whose clock was set does not contain how much time passed at the step, so the number of ticks
  /// missing there is unknown. Elsewhere it is known: ten ticks of 0.02 s are missing.
  @Test(arguments: [-3600, 3600, -2, -400 * 86_400, 90] as [Double])
  func saysThatAStepHidesWhatIsMissing(_ step: Double) throws {
    var (log, last) = (TestLog(), 0.0)
    for number in 0..<1_500 where !(500..<510).contains(number) {
      for frame in RingFrames.tick {
        // Packets of one event follow each other.
        last = max((Double(number) / 50 / 0.03).rounded(.up) * 0.03, last + 0.0002)
        log.notify(0x21, frame, at: last + (number < 1_000 ? 0 : step))
      }
    }
    try log.imported([(0x21, RingUUID.commandNotify)]) { capture, folder in
      let report = capture.report
      let clock = try #require(report.ticks?.clock)
      #expect(clock.missing == 10 && clock.missingAtMost == nil)
      #expect(report.lost.missing == 30 && !report.isNumbered)
      let streams = try #require(try json(folder + "/session.json")["streams"] as? [String: [String: Any]])
      #expect(streams.count == 3 && streams.values.allSatisfy { $0["missing"] == nil })
      let analysis = try CaptureAnalysis.run(folder, output: nil)
      #expect(analysis.ticks == report.ticks)
      #expect(analysis.ledger == Ledger(report))
      try withFolder { other in
        try Data(log.octets).write(to: URL(filePath: other + "/log"))
        let survey = try PacketSurvey.read(other + "/log", keeping: .samples) { _ in }
        let device = try #require(survey.devices.first)
        let ledger = device.streams.ledger { _, _ in false }
        #expect(ledger.loss.missing == 30 && !ledger.isNumbered)
        let streams = device.streams
        let found = try CaptureAnalysis.findings(
          of: streams.ringSamples, clockSets: streams.clockSets, streams.sources
        ).0
        #expect(found.ticks == report.ticks)
      }
    }
  }

  @Test func showsCutRecordsAsCut() throws {
    let log = Self.heartRates(4) { $0 == 2 ? 14 : nil }
    var decoder = PacketDecoder()
    var (text, json) = (PacketPrinter(style: .text), PacketPrinter(style: .json))
    var statistics = LogStatistics()
    var reader = PacketLogReader()
    try reader.read(log.octets.span) { record in
      statistics.take(record)
      decoder.decode(record) { packet in
        text.print(packet)
        json.print(packet)
      }
    }
    let words = String(decoding: text.octets, as: UTF8.self)
    #expect(words.contains("! cut: the log's writer kept 13 of 15 bytes") && !words.contains("malformed"))
    let line = String(decoding: json.octets, as: UTF8.self).split(separator: "\n")[3]
    #expect(line.contains(#""cut":{"keptOctets":13,"octets":15}"#) && line.contains(#""value":"163e""#))
    #expect(!line.contains("problem"))
    let report = statistics.finish()
    #expect(report.cut == 1 && report.malformed == 0)
    #expect(report.connections[0].attributes[0].count == 4)
    #expect(decoder.malformedPackets == 0)
  }

  // MARK: Order

  private static let ecg: [(UInt16, BluetoothUUID)] = [
    (0x12, PolarUUID.controlPoint), (0x15, PolarUUID.data),
  ]

  private static func imported(
    _ frames: [PolarTestFrame], startIsHeard: Bool = true,
    _ body: (LogImport.Capture, String) throws -> Void
  ) throws {
    var log = TestLog()
    if startIsHeard { log.startPolar() }
    for frame in frames { log.notify(0x15, frame.octets, at: frame.arrival) }
    try log.imported(ecg, body: body)
  }

  private static func times(_ folder: String) -> [Int64] {
    column(0, of: folder + "/ecg.csv").compactMap { Int64($0) }
  }

  /// 8 of 160 frames are received twice: immediately, after the next frame, or ten frames later.
  @Test(arguments: [1, 2, 10]) func recordsAFrameOnceThatCameTwice(_ distance: Int) throws {
    var frames = PolarTestFrame.stream(160)
    for number in stride(from: 145, through: 5, by: -20) {
      var again = frames[number]
      again.arrival = frames[number + distance - 1].arrival + 0.004
      frames.insert(again, at: number + distance)
    }
    try Self.imported(frames) { capture, folder in
      let times = Self.times(folder)
      #expect(times.count == 11_680 && zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
      #expect(capture.report.repeated == 8 && capture.report.lost.total == 0)
      #expect(
        Ledger(capture.report).lines == [
          "0 lost of 168", "8 repeated: received twice, recorded once",
        ])
    }
  }

  /// Two sensors send through one attribute, with similar or different clocks: the rows come from only one of
  /// them.
  @Test(arguments: [0.28, 0.4, 3_600, -86_400], [0.0, 0.9])
  func mixesNoTwoStreams(_ offset: Double, _ lag: Double) throws {
    let first = PolarTestFrame.stream(160)
    let second = PolarTestFrame.stream(160, device: offset, arrival: 0.2 + lag, value: 500)
    let frames = (first + second).sorted { $0.arrival < $1.arrival }
    try Self.imported(frames) { capture, folder in
      let values = Set(column(3, of: folder + "/ecg.csv"))
      #expect(values == ["100"])
      #expect(Self.times(folder).count == 11_680)
      #expect(capture.report.lost.unplaced == 160 && capture.report.repeated == 0)
      #expect(capture.report.lost.missing == 0)
    }
  }

  /// The same times with other samples.
  @Test func mixesNoTwoStreamsOfTheSameTimes() throws {
    let first = PolarTestFrame.stream(20)
    let second = PolarTestFrame.stream(20, arrival: 0.1, value: 500)
    try Self.imported((first + second).sorted { $0.arrival < $1.arrival }) { capture, folder in
      #expect(Set(column(3, of: folder + "/ecg.csv")) == ["100"])
      #expect(capture.report.lost.unplaced == 20)
    }
  }

  /// A strap's values over two links at once, as in a log of two adapters: each value is recorded once.
  @Test func mixesNoTwoLinks() throws {
    var log = TestLog()
    log.connect(handle: 0x41)
    for number in 0..<30 {
      let value: [UInt8] = [0x16, 72, UInt8(number), 0x03]
      log.notify(0x12, value, at: Double(number), handle: 0x40)
      log.notify(0x12, value, at: Double(number) + 0.1, handle: 0x41)
    }
    try log.imported([(0x12, .heartRateMeasurement)]) { capture, folder in
      #expect(column(2, of: folder + "/rr_intervals.csv").count == 30)
      #expect(capture.report.repeated == 30 && capture.report.lost.total == 0)
    }
  }

  /// A sensor restarts with another clock. Its data is still followed, with times that keep increasing;
  /// nothing is lost or repeated.
  @Test(arguments: [-50.0, -20_000, 70_000]) func followsAClockThatBeganAnew(_ step: Double) throws {
    var frames = PolarTestFrame.stream(40)
    for place in 20..<40 {
      frames[place].device += step
      frames[place].arrival += 5
    }
    try Self.imported(frames) { capture, folder in
      let times = Self.times(folder)
      #expect(times.count == 40 * 73 && zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
      #expect(capture.report.lost.total == 0 && capture.report.repeated == 0)
      // The pause of five seconds is preserved.
      let longest = zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? 0
      #expect((4_500_000_000...5_600_000_000).contains(longest))
    }
  }

  /// A frame that arrives after later ones cannot be placed: it counts as late, not as missing.
  @Test func countsALateFrame() throws {
    var frames = PolarTestFrame.stream(30)
    var late = frames.remove(at: 10)
    late.arrival = frames[11].arrival + 0.01
    frames.insert(late, at: 12)
    try Self.imported(frames) { capture, folder in
      let times = Self.times(folder)
      #expect(times.count == 29 * 73 && zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
      #expect(capture.report.lost.late == 1 && capture.report.lost.missing == 0)
    }
  }

  // MARK: Missing by the sensor's clock

  @Test(arguments: [true, false]) func countsMissingSamples(startIsHeard: Bool) throws {
    var frames = PolarTestFrame.stream(160)
    for number in [150, 120, 77, 76, 9] { frames.remove(at: number) }
    try Self.imported(frames, startIsHeard: startIsHeard) { capture, folder in
      #expect(capture.report.lost.missing == 365 && capture.report.lost.total == 365)
      #expect(
        Ledger(capture.report).lines == [
          "365 lost (155 notifications received): 365 samples missing by the sensor's clock"
        ])
      #expect(try Ledger(SessionDocument.read(in: folder)) == Ledger(capture.report))
      // Other commands report the same figures.
      #expect(try CaptureAnalysis.run(folder, output: nil).ledger == Ledger(capture.report))
      let converted = try CaptureConversion.run(folder, to: .ndjson, output: folder + ".ndjson") { _ in }
      #expect(converted.ledger == Ledger(capture.report))
      let section = try CaptureReport.section(folder) { _ in }
      #expect(section.allLosses == [ReportSection.Loss(count: 365, unit: .sample)])
    }
  }

  /// Frames are missing from the start, after the first two, or every second one.
  @Test(arguments: [[1], [1, 2], Array(stride(from: 1, to: 40, by: 2))])
  func countsMissingSamplesFromTheStart(_ places: [Int]) throws {
    let frames = PolarTestFrame.stream(41).enumerated().filter { !places.contains($0.offset) }.map(\.element)
    try Self.imported(frames) { capture, _ in #expect(capture.report.lost.missing == 73 * places.count) }
  }

  /// Frames of 20 to 73 samples, at a rate that is 1.5 % off.
  @Test func countsMissingSamplesOfVaryingFrames() throws {
    let counts = (0..<100).map { 20 + $0 * 29 % 54 }
    let all = PolarTestFrame.stream(100, rate: 132, counts: counts)
    let gone = [3, 40, 41, 70, 98]
    let frames = all.enumerated().filter { !gone.contains($0.offset) }.map(\.element)
    try Self.imported(frames) { capture, folder in
      #expect(capture.report.lost.missing == gone.reduce(0) { $0 + counts[$1] })
      let times = Self.times(folder)
      #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
    }
  }

  /// A firmware that claims 135 Hz and measures at 55 Hz (reference `sensor-services.md`, 5.3) loses nothing.
  @Test func believesFramesMoreThanTheNominalRate() throws {
    try Self.imported(PolarTestFrame.stream(50, rate: 55)) { capture, _ in
      #expect(capture.report.lost.total == 0)
    }
  }

  /// By the clock, the samples of a cut frame are missing as well; they count once. Six bytes of a sample are
  /// left.
  @Test func countsTheSamplesOfACutFrameOnce() throws {
    var log = TestLog()
    log.startPolar()
    for (number, frame) in PolarTestFrame.stream(60).enumerated() where number != 50 {
      log.notify(0x15, frame.octets, at: frame.arrival, kept: number % 20 == 10 ? 28 : nil)
    }
    try log.imported(Self.ecg) { capture, _ in
      #expect(capture.report.lost.cut == 2 && capture.report.lost.missing == 73)
    }
  }

  /// A ring sends three frames a tick. One frame of a tick and two whole ticks are missing; the end of the
  /// log cuts the last tick short.
  @Test func countsTheMissingSamplesOfARing() throws {
    var log = TestLog()
    for tick in 0..<500 where tick != 300 && tick != 301 {
      for kind in [1, 2, 3] as [UInt8] where !(tick == 200 && kind == 2) && !(tick == 499 && kind > 1) {
        var frame: [UInt8] = [0xA1, kind, 0x2B, 0x67, 0x2B, 0x91, 0x29, 0x5D, 0, 0, 0, 0, 0, 0, 0, 0]
        frame[15] = frame.reduce(0, &+)
        log.notify(0x21, frame, at: Double(tick) / 50 + Double(kind) / 10_000)
      }
    }
    try log.imported([(0x21, RingUUID.commandNotify)]) { capture, folder in
      #expect(capture.report.lost.missing == 7 && capture.report.lost.total == 7)
      #expect(column(1, of: folder + "/samples.csv").count == 498)
      // A report of the log itself says the same.
      let document = try ReportDocument.read(folder + "/../log", title: nil) { _ in }
      #expect(document.missingText == "no gaps, 7 samples lost")
    }
  }

  /// A frame that arrives twice in a row is recorded once. It must not begin a tick, which shifts the clock and
  /// makes other ticks seem missing.
  @Test(arguments: [1, 2, 3] as [UInt8], [0, 0.001, 0.004] as [Double])
  func recordsARingsFrameOnceThatCameTwice(_ twice: UInt8, _ later: Double) throws {
    var log = TestLog()
    for tick in 0..<500 {
      for kind in [1, 2, 3] as [UInt8] {
        var frame: [UInt8] = [0xA1, kind, 0x2B, 0x67, 0x2B, 0x91, 0x29, 0x5D, 0, 0, 0, 0, 0, 0, 0, 0]
        frame[3] = UInt8(tick % 200)
        frame[15] = frame.reduce(0, &+)
        let time = Double(tick) / 50 + Double(kind) / 10_000
        log.notify(0x21, frame, at: time)
        if kind == twice, [77, 200, 201, 444].contains(tick) { log.notify(0x21, frame, at: time + later) }
      }
    }
    try log.imported([(0x21, RingUUID.commandNotify)]) { capture, folder in
      #expect(capture.report.received == 1_504 && capture.report.repeated == 4)
      #expect(capture.report.lost.total == 0 && capture.report.ticks?.clock.missing == 0)
      #expect(column(1, of: folder + "/samples.csv") == (0..<500).map { "\($0)" })
      for stream in ["spo2", "ppg", "accelerometer"] {
        #expect(column(1, of: folder + "/\(stream).csv").count == 500)
      }
    }
  }

  /// Equal samples are not repeated frames: only one kind is sent, the kinds have different rates, or a finger
  /// is missing.
  @Test(arguments: [[2], [2, 2, 2, 3], [1, 2, 3, 3]] as [[UInt8]], [false, true])
  func leavesEqualSamplesOfARing(_ kinds: [UInt8], _ isDropout: Bool) throws {
    var log = TestLog()
    for number in 0..<400 {
      let kind = kinds[number % kinds.count]
      var frame: [UInt8] = [0xA1, kind, 0x2B, 0x67, 0x2B, 0x91, 0x29, 0x5D, 0, 0, 0, 0, 0, 0, 0, 0]
      if isDropout { frame.replaceSubrange(2..<15, with: repeatElement(0, count: 13)) }
      // Two frames of movement that follow each other in turn differ; only light has dropouts.
      if kinds == [1, 2, 3, 3], kind == 3 { frame[3] = UInt8(number % 4) }
      frame[15] = frame.reduce(0, &+)
      log.notify(0x21, frame, at: Double(number) / 100)
    }
    try log.imported([(0x21, RingUUID.commandNotify)]) { capture, _ in
      #expect(capture.report.received == 400 && capture.report.repeated == 0)
      #expect(capture.report.streams.map(\.samples).reduce(0, +) == 400)
    }
  }

  /// The queue dropped some of 300 ticks: they count in one place only.
  @Test func countsWhatAQueueDroppedOnce() {
    var account = TableAccount()
    (account.samples, account.notifications, account.missing) = (900, 2_700, 100)
    #expect(account.missing(100, besides: 300) == 0)
    #expect(account.missing(101, besides: 298) == 0)
    #expect(account.missing(140, besides: 300) == 40)
    #expect(account.missing(100, besides: 0) == 100)
  }

  /// Samples measured while there was no link are a gap, not a loss.
  @Test func countsNoGapOfTheLink() throws {
    var log = TestLog()
    log.startPolar()
    let frames = PolarTestFrame.stream(60)
    for frame in frames[..<20] { log.notify(0x15, frame.octets, at: frame.arrival) }
    log.disconnect(at: frames[20].arrival)
    log.connect(at: frames[30].arrival)
    log.startPolar(at: frames[30].arrival)
    for frame in frames[31...] { log.notify(0x15, frame.octets, at: frame.arrival) }
    try log.imported(Self.ecg) { capture, _ in
      #expect(capture.report.gapCount == 1 && capture.report.lost.total == 0)
    }
  }

  // MARK: Words

  /// A strap's values have no sequence numbers, so nothing proves that it sent more.
  @Test func claimsNothingWithoutEvidence() throws {
    try Self.heartRates(12) { _ in nil }.imported([(0x12, .heartRateMeasurement)]) { capture, _ in
      #expect(
        Ledger(capture.report).lines == ["0 dropped here of 12 (whether the sensor sent more is not known)"])
    }
  }

  @Test func countsMalformedValues() throws {
    var log = Self.heartRates(3) { _ in nil }
    log.notify(0x12, [0x16], at: 4)
    try log.imported([(0x12, .heartRateMeasurement)]) { capture, _ in
      #expect(capture.report.malformed == 1 && capture.report.lost.total == 1)
      #expect(Ledger(capture.report).lines == ["1 lost of 4: 1 malformed"])
    }
  }

  /// JSON has each place once, in the order that old captures have.
  @Test func encodesEachPlace() throws {
    var loss = SessionReport.Loss()
    for (number, place) in SessionReport.Loss.Place.allCases.enumerated() { loss[place] = number + 1 }
    #expect(loss.total == 45)
    var line = JSONLine()
    line.object { loss.encode(into: &$0) }
    #expect(
      String(decoding: line.octets, as: UTF8.self)
        == #"{"kernelQueue":1,"sampleQueue":2,"packetLog":3,"disk":4,"#
        + #""cut":5,"missing":6,"late":7,"unplaced":8,"malformed":9}"#)
  }
}

/// Cells of one column of a text table, without the header.
private func column(_ place: Int, of path: String) -> [String] {
  guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return [] }
  return text.split(separator: "\n").dropFirst().map {
    String($0.split(separator: ",", omittingEmptySubsequences: false)[place])
  }
}

/// A frame of ECG samples: type, time of the last sample, frame type 0, three bytes per sample.
private struct PolarTestFrame {
  /// Time by the sensor's clock and by the log's clock, in seconds.
  var device: Double
  var arrival: Double
  let count: Int
  let value: UInt8

  var octets: [UInt8] {
    let time = 599_616_000_000_000_000 + Int64((device * 1e9).rounded())
    let stamp = (0..<8).map { UInt8(truncatingIfNeeded: time >> (8 * $0)) }
    let samples = (0..<count).flatMap { _ in value == 100 ? [100, 0, 0] as [UInt8] : [0xF4, 0x01, 0] }
    return [0] + stamp + [0] + samples
  }

  /// - Parameters:
  ///   - device: offset of the sensor's clock.
  ///   - arrival: delay of the arrival.
  ///   - value: microvolts: 100, or 500.
  static func stream(
    _ count: Int, rate: Double = 130, counts: [Int]? = nil, device: Double = 0, arrival: Double = 0,
    value: Int = 100
  ) -> [PolarTestFrame] {
    var (frames, samples) = ([PolarTestFrame](), 0)
    for number in 0..<count {
      let size = counts?[number] ?? 73
      samples += size
      let time = Double(samples) / rate
      frames.append(
        PolarTestFrame(
          device: 100_000 + time + device, arrival: time + arrival, count: size,
          value: value == 100 ? 100 : 200))
    }
    return frames
  }
}

/// A packet log assembled byte by byte. Times are in seconds since its start.
private struct TestLog {
  private struct Record {
    /// Packet with its H4 type.
    var octets: [UInt8]
    var original: Int
    var fromController: Bool
    var time: Double
  }

  private var records: [Record] = []

  init() { connect() }

  /// LE Connection Complete, as central. Core 5.4, Vol 4, Part E, 7.7.65.1.
  mutating func connect(handle: UInt8 = 0x40, at time: Double = 0) {
    add(
      [4, 0x3E, 19, 1, 0, handle, 0, 0, 1, 0x9A, 0x78, 0x56, 0x34, 0x12, 0xC4, 0x18, 0, 0, 0, 0xC8, 0, 0],
      fromController: true, at: time)
  }

  /// Disconnection Complete: Connection Timeout.
  mutating func disconnect(at time: Double) { add([4, 5, 4, 0, 0x40, 0, 8], fromController: true, at: time) }

  /// A Handle Value Notification.
  mutating func notify(
    _ attribute: UInt8, _ value: [UInt8], at time: Double, kept: Int? = nil, handle: UInt8 = 0x40
  ) {
    let pdu: [UInt8] = [0x1B, attribute, 0] + value
    let frame = Self.length(pdu.count) + [4, 0] + pdu
    add([2, handle, 0x20] + Self.length(frame.count) + frame, fromController: true, at: time + 1, kept: kept)
  }

  /// Adds a Write Request of the host.
  mutating func write(_ attribute: UInt8, _ value: [UInt8], at time: Double, kept: Int? = nil) {
    let pdu: [UInt8] = [0x12, attribute, 0] + value
    let frame = Self.length(pdu.count) + [4, 0] + pdu
    add([2, 0x40, 0] + Self.length(frame.count) + frame, fromController: false, at: time + 1, kept: kept)
  }

  /// Adds the same notification in three fragments, one of which lacks its last byte.
  mutating func fragments(_ attribute: UInt8, _ value: [UInt8], at time: Double, cut: Int) {
    let pdu: [UInt8] = [0x1B, attribute, 0] + value
    let frame = Self.length(pdu.count) + [4, 0] + pdu
    let parts = [frame[..<6], frame[6..<9], frame[9...]]
    for (number, part) in parts.enumerated() {
      let octets = [2, 0x40, number == 0 ? 0x20 : 0x10] + Self.length(part.count) + part
      add(
        octets, fromController: true, at: time + 1 + Double(number) / 100,
        kept: number == cut ? octets.count - 1 : nil)
    }
  }

  /// The request that starts an ECG of 130 Hz and 14 bits, and its response. Online Measurement (2024), 3.
  mutating func startPolar(at time: Double = 0) {
    let request: [UInt8] = [0x12, 0x12, 0, 2, 0, 0, 1, 0x82, 0, 1, 1, 0x0E, 0]
    let frame = Self.length(request.count) + [4, 0] + request
    add([2, 0x40, 0] + Self.length(frame.count) + frame, fromController: false, at: time + 0.5)
    let answer: [UInt8] = [0x1D, 0x12, 0, 0xF0, 2, 0, 0, 0]
    let reply = Self.length(answer.count) + [4, 0] + answer
    add([2, 0x40, 0x20] + Self.length(reply.count) + reply, fromController: true, at: time + 0.6)
  }

  private static func length(_ count: Int) -> [UInt8] { [UInt8(count & 0xFF), UInt8(count >> 8)] }

  private mutating func add(_ octets: [UInt8], fromController: Bool, at time: Double, kept: Int? = nil) {
    records.append(
      Record(
        octets: Array(octets.prefix(kept ?? octets.count)), original: octets.count,
        fromController: fromController, time: time))
  }

  private static func big(_ number: Int) -> [UInt8] {
    (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
  }

  /// The log as btsnoop with datalink 1002, as in BlueZ's `doc/btsnoop-protocol.rst`.
  var octets: [UInt8] {
    var file = Array("btsnoop".utf8) + [0] + Self.big(1) + Self.big(1002)
    for record in records {
      let time: Int64 = 0x00DC_DDB3_0F2F_8000 + 1_760_000_000_000_000 + Int64(record.time * 1e6)
      file += Self.big(record.original) + Self.big(record.octets.count)
      file += Self.big(record.fromController ? 1 : 0) + Self.big(0)
      file += (0..<8).map { UInt8(truncatingIfNeeded: time >> (56 - 8 * $0)) } + record.octets
    }
    return file
  }

  /// The log as pcap, `pcap-savefile(5)`, big-endian.
  func pcap(linkType: Int) -> [UInt8] {
    var file = Self.big(0xA1B2_C3D4) + [0, 2, 0, 4] + Self.big(0) + Self.big(0) + Self.big(64)
    file += Self.big(linkType)
    for record in records {
      let head = linkType == 201 ? Self.big(record.fromController ? 1 : 0) : []
      file += Self.big(1_760_000_000 + Int(record.time)) + Self.big(0)
      file += Self.big(head.count + record.octets.count) + Self.big(head.count + record.original)
      file += head + record.octets
    }
    return file
  }

  /// The log as pcapng, `draft-ietf-opsawg-pcapng`, 4, big-endian, link type 201.
  func pcapng() -> [UInt8] {
    func block(_ type: Int, _ content: [UInt8]) -> [UInt8] {
      let padded = content + [UInt8](repeating: 0, count: (4 - content.count % 4) % 4)
      return Self.big(type) + Self.big(padded.count + 12) + padded + Self.big(padded.count + 12)
    }
    var file = block(0x0A0D_0D0A, Self.big(0x1A2B_3C4D) + [0, 1, 0, 0] + [UInt8](repeating: 0xFF, count: 8))
    file += block(1, [0, 201, 0, 0] + Self.big(0))
    for record in records {
      let time = 1_760_000_000_000_000 + Int(record.time * 1e6)
      let (kept, original) = (record.octets.count + 4, record.original + 4)
      file += block(
        6,
        Self.big(0) + Self.big(time >> 32) + Self.big(time & 0xFFFF_FFFF) + Self.big(kept)
          + Self.big(original)
          + Self.big(record.fromController ? 1 : 0) + record.octets)
    }
    return file
  }

  /// Imports the log and calls `body` with its only capture.
  func imported(
    _ attributes: [(UInt16, BluetoothUUID)], _ octets: [UInt8]? = nil,
    body: (LogImport.Capture, String) throws -> Void
  ) throws {
    try withFolder { folder in
      try Data(octets ?? self.octets).write(to: URL(filePath: folder + "/log"))
      let importing = LogImport(
        folder + "/log", into: folder + "/capture",
        attributes: attributes.map { (handle: AttributeHandle($0.0), uuid: $0.1) })
      let outcome = try importing.run()
      #expect(outcome.problems.isEmpty)
      let capture = try #require(outcome.captures.first)
      #expect(outcome.captures.count == 1)
      try body(capture, capture.directory)
    }
  }
}
