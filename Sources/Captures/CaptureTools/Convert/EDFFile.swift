package import BLELinux
internal import CEDF
import Glibc

/// A file of EDF+ or BDF+ (continuous), written by EDFlib: signals, and notes on their time axis.
///
/// The file has whole data records only. EDFlib names no reason where it fails; what it says is an EIO.
/// European Data Format "plus", https://www.edfplus.info/specs/edfplus.html
package struct EDFFile: ~Copyable {
  package enum Kind: Hashable, Sendable {
    /// 16 bits a sample, and 24.
    case edf, bdf
  }

  /// A signal as the file's head describes it. Texts in ASCII; too long ones are cut.
  package struct Signal: Hashable, Sendable {
    /// 16 characters.
    package var label: String
    /// 8 characters.
    package var unit: String
    /// 80 characters.
    package var transducer: String
    package var digital: ClosedRange<Int>
    /// What the ends of `digital` stand for. The head has room for 8 characters each.
    package var physical: ClosedRange<Double>
    /// In a data record.
    package var samplesPerRecord: Int

    package init(
      label: String, unit: String, transducer: String, digital: ClosedRange<Int>,
      physical: ClosedRange<Double>, samplesPerRecord: Int
    ) {
      self.label = label
      self.unit = unit
      self.transducer = transducer
      self.digital = digital
      self.physical = physical
      self.samplesPerRecord = samplesPerRecord
    }
  }

  /// What is common to all signals.
  package struct Layout: Hashable, Sendable {
    /// Of the first sample, in nanoseconds since the Unix epoch; the file has it to 100 µs, rounded down, as UTC.
    package var startNanoseconds: Int64
    /// In units of 10 µs, 100 … 6,000,000.
    package var recordDuration: Int
    package var recordCount: Int
    /// Notes to come.
    package var noteCount: Int
    /// ASCII, of the recording; nothing is said of the person.
    package var remark: String

    package init(
      startNanoseconds: Int64, recordDuration: Int, recordCount: Int, noteCount: Int, remark: String
    ) {
      self.startNanoseconds = startNanoseconds
      self.recordDuration = recordDuration
      self.recordCount = recordCount
      self.noteCount = noteCount
      self.remark = remark
    }

    /// Notes that find room: EDFlib keeps one a data record in each signal of notes, of which there are 64 at most.
    package var noteLimit: Int { max(1, recordCount) * 64 }
    fileprivate var noteSignalCount: Int { min(64, max(1, (noteCount + recordCount) / max(1, recordCount))) }
  }

  /// Octets of a note's text, at most; more are cut off by EDFlib.
  package static let noteByteCount = 40

  package let path: String
  private let file: CInt
  /// Open as long as EDFlib has the file, which knows it by this number.
  private let descriptor: FileDescriptor
  private let recordDuration: Int
  private var recordCount = 0
  private var isOpen = true

  /// Creates a file that is not there yet.
  package init(
    creating path: String, _ kind: Kind, _ signals: [Signal], _ layout: Layout
  ) throws(SystemError) {
    let type = kind == .edf ? EDFLIB_FILETYPE_EDFPLUS : EDFLIB_FILETYPE_BDFPLUS
    // EDFlib would follow a link.
    let descriptor: FileDescriptor
    do throws(SystemError) {
      descriptor = try OpenFolder(Files.folder(of: path)).create(Files.name(of: path))
    } catch { throw SystemError(call: "create \(path)", number: error.number) }
    let opened = "/proc/self/fd/\(descriptor.rawValue)"
    // SAFETY: the path is a null-terminated string for the length of the call.
    let file = unsafe edfopen_file_writeonly(opened, type, CInt(signals.count))
    guard file >= 0 else {
      try? Files.remove(path)
      throw SystemError(call: "create \(path)", number: Self.reason(file))
    }
    var results = [
      edf_set_datarecord_duration(file, CInt(layout.recordDuration)),
      edf_set_number_of_annotation_signals(file, CInt(layout.noteSignalCount)),
      // SAFETY: a null-terminated string for the length of the call.
      unsafe edf_set_recording_additional(file, layout.remark),
    ]
    results += Self.setStart(file, layout.startNanoseconds)
    for (place, signal) in signals.enumerated() {
      results += Self.set(file, CInt(place), signal)
    }
    guard results.allSatisfy({ $0 == 0 }) else {
      edfclose_file(file)
      try? Files.remove(path)
      throw SystemError(call: "describe the signals of \(path)", number: EINVAL)
    }
    self.path = path
    self.file = file
    self.descriptor = descriptor
    recordDuration = layout.recordDuration
  }

  deinit { if isOpen { edfclose_file(file) } }

  /// One data record: the samples of the first signal, then those of the next, and so on.
  package mutating func append(_ samples: inout [CInt]) throws(SystemError) {
    // SAFETY: the pointer covers the samples of one record, for the length of the call.
    let result = unsafe samples.withUnsafeMutableBufferPointer {
      unsafe edf_blockwrite_digital_samples(file, $0.baseAddress)
    }
    guard result == 0 else { throw failure }
    recordCount += 1
  }

  /// A note on the time axis.
  ///
  /// - Parameters:
  ///   - onset: since the first sample, to 100 µs.
  ///   - duration: `nil` where it has none.
  package func note(
    _ text: String, onsetNanoseconds onset: Int64, durationNanoseconds duration: Int64? = nil
  ) throws(SystemError) {
    // SAFETY: the text is a null-terminated string for the length of the call.
    let result = unsafe edfwrite_annotation_utf8(
      file, (max(0, onset) + 50_000) / 100_000, duration.map { ($0 + 50_000) / 100_000 } ?? -1, text)
    guard result == 0 else { throw failure }
  }

  /// Closes it.
  ///
  /// - Throws: where it does not have all records: the disk is full, say.
  package mutating func finish() throws(SystemError) {
    isOpen = false
    // SAFETY: the path is a null-terminated string for the length of the call.
    guard unsafe ringtap_edf_finish(file, path) == Int64(recordCount) else { throw failure }
    try writeDuration()
  }

  /// Writes the records' duration once more: EDFlib 1.23 cuts what it computes of it (0.519939 for 0.51994 s, of two durations in
  /// five), and then refuses the file, since each record has its own time.
  private func writeDuration() throws(SystemError) {
    let digits = String(recordDuration % 100_000 + 100_000).dropFirst()
    let text = "\(recordDuration / 100_000).\(digits)"
    let field = Array((text + String(repeating: " ", count: max(0, 8 - text.utf8.count))).utf8.prefix(8))
    guard try descriptor.write(field.span, at: Self.durationOffset) == field.count else { throw failure }
  }

  /// In the head, where the duration has eight characters.
  private static let durationOffset = 244

  private var failure: SystemError { SystemError(call: "write \(path)", number: EIO) }

  private static func reason(_ code: CInt) -> CInt {
    switch code {
    case EDFLIB_MALLOC_ERROR: ENOMEM
    case EDFLIB_NO_SUCH_FILE_OR_DIRECTORY: ENOENT
    case EDFLIB_NUMBER_OF_SIGNALS_INVALID: EINVAL
    default: EIO
    }
  }

  private static func setStart(_ file: CInt, _ nanoseconds: Int64) -> [CInt] {
    var time = time_t(nanoseconds / 1_000_000_000)
    // SAFETY: its pointer, to the name of the time zone, is not used.
    var parts = unsafe tm()
    // SAFETY: both outlive the call, which fills the second.
    unsafe gmtime_r(&time, &parts)
    return unsafe [
      edf_set_startdatetime(
        file, parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec
      ),
      // In 100 ns; no finer than notes are, which would not fit their record else.
      edf_set_subsecond_starttime(file, CInt(nanoseconds % 1_000_000_000 / 100_000 * 1_000)),
    ]
  }

  private static func set(_ file: CInt, _ place: CInt, _ signal: Signal) -> [CInt] {
    // SAFETY: the texts are null-terminated strings for the length of their calls.
    unsafe [
      edf_set_samplefrequency(file, place, CInt(signal.samplesPerRecord)),
      edf_set_digital_minimum(file, place, CInt(signal.digital.lowerBound)),
      edf_set_digital_maximum(file, place, CInt(signal.digital.upperBound)),
      edf_set_physical_minimum(file, place, signal.physical.lowerBound),
      edf_set_physical_maximum(file, place, signal.physical.upperBound),
      edf_set_label(file, place, signal.label),
      edf_set_physical_dimension(file, place, signal.unit),
      edf_set_transducer(file, place, signal.transducer),
    ]
  }
}
