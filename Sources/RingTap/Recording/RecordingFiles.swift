import BLECore
import BLEHost
import BLEPacketLog
import BLESystem
import BLEWire

/// The open files of a recording. After the first failure they take nothing more and count what they miss.
struct RecordingFiles: ~Copyable {
  private var accelerometer: OutputFile
  private var ppg: OutputFile
  private var spO2: OutputFile
  private var log: OutputFile
  private let hasLog: Bool
  private var encoder: LinkLogWriter
  private var packetsTaken = 0
  private var samplesTaken = [Int](repeating: 0, count: RingStream.allCases.count)
  private var failure: SystemError?

  /// - Parameter format: of the packet log; `nil` for none.
  init(in directory: String, log format: CaptureLogFormat?) throws(SystemError) {
    func table(_ stream: RingStream) throws(SystemError) -> OutputFile {
      var file = try OutputFile(creating: directory + "/" + stream.fileName)
      try file.append { $0 += stream.header.utf8 }
      try file.flush()
      return file
    }
    let accelerometer = try table(.accelerometer)
    let ppg = try table(.ppg)
    let spO2 = try table(.spO2)
    var encoder = LinkLogWriter(format ?? .btsnoop)
    var log: OutputFile
    if let format {
      log = try OutputFile(creating: directory + "/" + format.fileName)
      try log.append { encoder.start(into: &$0) }
      try log.flush()
      hasLog = true
    } else {
      log = try OutputFile(creating: "/dev/null")
      hasLog = false
    }
    self.accelerometer = accelerometer
    self.ppg = ppg
    self.spO2 = spO2
    self.log = log
    self.encoder = encoder
  }

  /// Whether something waits for a flush or for the disk.
  var isPending: Bool {
    failure == nil
      && (accelerometer.isPending || ppg.isPending || spO2.isPending || log.isPending
        || accelerometer.isUnsynced || ppg.isUnsynced || spO2.isUnsynced || log.isUnsynced)
  }

  var hasFailed: Bool { failure != nil }

  var outcome: Recorder.Outcome {
    var outcome = Recorder.Outcome()
    // Each file's first unit is its header.
    outcome.samples = [accelerometer.writtenUnits - 1, ppg.writtenUnits - 1, spO2.writtenUnits - 1]
    outcome.failure = failure
    if failure != nil {
      outcome.lostSamples = samplesTaken.reduce(0, +) - outcome.samples.reduce(0, +)
      outcome.lostPackets = hasLog ? packetsTaken - (log.writtenUnits - 1) : 0
    }
    return outcome
  }

  mutating func append(_ sample: StampedSample) {
    guard let stream = sample.stream else { return }
    samplesTaken[stream.rawValue] += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      switch stream {
      case .accelerometer: try accelerometer.append { sample.appendRow(to: &$0) }
      case .ppg: try ppg.append { sample.appendRow(to: &$0) }
      case .spO2: try spO2.append { sample.appendRow(to: &$0) }
      }
    } catch { fail(error) }
  }

  mutating func append(_ tag: UInt32, _ time: ReceiveTime, dropped: Int, _ pdu: Span<UInt8>) {
    packetsTaken += 1
    guard failure == nil else { return }
    do throws(SystemError) {
      try log.append { encoder.append(pdu, PacketTap.Tag(tag), time, dropped: dropped, to: &$0) }
    } catch { fail(error) }
  }

  mutating func flush() {
    guard failure == nil else { return }
    do throws(SystemError) {
      try accelerometer.flush()
      try ppg.flush()
      try spO2.flush()
      try log.flush()
    } catch { fail(error) }
  }

  mutating func sync() {
    guard failure == nil else { return }
    do throws(SystemError) {
      try accelerometer.sync()
      try ppg.sync()
      try spO2.sync()
      try log.sync()
    } catch { fail(error) }
  }

  /// Saves what the other files can still take; a full disk may have room for a small rest.
  private mutating func fail(_ error: SystemError) {
    failure = error
    try? accelerometer.flush()
    try? ppg.flush()
    try? spO2.flush()
    try? log.flush()
  }
}
