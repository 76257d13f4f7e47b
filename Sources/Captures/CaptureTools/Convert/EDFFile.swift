package import BLELinux
internal import CEDF
import Glibc

/// Continuous EDF+ or BDF+ file, written by EDFlib: signals, and annotations on their time axis.
///
/// The file contains only whole data records. EDFlib gives no reason for a failure, so its errors become EIO.
/// European Data Format "plus", https://www.edfplus.info/specs/edfplus.html
package struct EDFFile: ~Copyable {
  package enum Kind: Hashable, Sendable {
    /// 16 and 24 bits per sample.
    case edf, bdf
  }

  /// Signal in the file header. Texts are ASCII; longer texts are truncated.
  package struct Signal: Hashable, Sendable {
    /// At most 16 characters.
    package var label: String
    /// At most 8 characters.
    package var unit: String
    /// At most 80 characters.
    package var transducer: String
    package var digital: ClosedRange<Int>
    /// Values that correspond to the ends of `digital`. The header has 8 characters for each value.
    package var physical: ClosedRange<Double>
    /// Number of samples in each data record.
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

  /// Properties common to all signals.
  package struct Layout: Hashable, Sendable {
    /// Time of the first sample, in nanoseconds since the Unix epoch. The file stores it in UTC, rounded down
    /// to 100 µs.
    package var startNanoseconds: Int64
    /// Duration of a data record in units of 10 µs, 100 to 6,000,000.
    package var recordDuration: Int
    package var recordCount: Int
    /// Number of annotations that will be written.
    package var noteCount: Int
    /// Remark about the recording, in ASCII. The file contains no personal data.
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

    /// Maximum number of annotations. EDFlib stores one annotation per data record in each annotation signal,
    /// and there are at most 64 annotation signals.
    package var noteLimit: Int { max(1, recordCount) * 64 }
    fileprivate var noteSignalCount: Int { min(64, max(1, (noteCount + recordCount) / max(1, recordCount))) }
  }

  /// Maximum length of an annotation's text in bytes. EDFlib truncates longer texts.
  package static let noteByteCount = 40

  package let path: String
  private let file: CInt
  /// File descriptor. EDFlib opens the file through its number, so it stays open as long as EDFlib uses the
  /// file.
  private let descriptor: FileDescriptor
  private let recordDuration: Int
  private var recordCount = 0
  private var isOpen = true

  /// Creates a file. Fails if it exists.
  package init(
    creating path: String, _ kind: Kind, _ signals: [Signal], _ layout: Layout
  ) throws(SystemError) {
    let type = kind == .edf ? EDFLIB_FILETYPE_EDFPLUS : EDFLIB_FILETYPE_BDFPLUS
    // Open the file here, because EDFlib would follow a symbolic link.
    let descriptor: FileDescriptor
    do throws(SystemError) {
      descriptor = try OpenFolder(Files.folder(of: path)).create(Files.name(of: path))
    } catch { throw SystemError(call: "create \(path)", number: error.number) }
    let opened = "/proc/self/fd/\(descriptor.rawValue)"
    // SAFETY: the path is a null-terminated string for the duration of the call.
    let file = unsafe edfopen_file_writeonly(opened, type, CInt(signals.count))
    guard file >= 0 else {
      try? Files.remove(path)
      throw SystemError(call: "create \(path)", number: Self.reason(file))
    }
    var results = [
      edf_set_datarecord_duration(file, CInt(layout.recordDuration)),
      edf_set_number_of_annotation_signals(file, CInt(layout.noteSignalCount)),
      // SAFETY: the text is a null-terminated string for the duration of the call.
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

  /// Appends one data record: the samples of the first signal, then those of the second, and so on.
  package mutating func append(_ samples: inout [CInt]) throws(SystemError) {
    // SAFETY: the pointer covers the samples of one record, for the duration of the call.
    let result = unsafe samples.withUnsafeMutableBufferPointer {
      unsafe edf_blockwrite_digital_samples(file, $0.baseAddress)
    }
    guard result == 0 else { throw failure }
    recordCount += 1
  }

  /// Writes an annotation on the time axis.
  ///
  /// - Parameters:
  ///   - text: text of the annotation.
  ///   - onset: time since the first sample, stored in units of 100 µs.
  ///   - duration: duration; `nil` for none.
  package func note(
    _ text: String, onsetNanoseconds onset: Int64, durationNanoseconds duration: Int64? = nil
  ) throws(SystemError) {
    // SAFETY: the text is a null-terminated string for the duration of the call.
    let result = unsafe edfwrite_annotation_utf8(
      file, (max(0, onset) + 50_000) / 100_000, duration.map { ($0 + 50_000) / 100_000 } ?? -1, text)
    guard result == 0 else { throw failure }
  }

  /// Completes and closes the file.
  ///
  /// - Throws: an error if records are missing, for example because the disk is full.
  package mutating func finish() throws(SystemError) {
    isOpen = false
    // SAFETY: the path is a null-terminated string for the duration of the call.
    guard unsafe ringtap_edf_finish(file, path) == Int64(recordCount) else { throw failure }
    try writeDuration()
  }

  /// Corrects the duration of the records in the header. EDFlib 1.23 truncates its text for two of five
  /// durations (0.519939 for 0.51994 s), and then rejects the file, because each record has its own time.
  private func writeDuration() throws(SystemError) {
    let digits = String(recordDuration % 100_000 + 100_000).dropFirst()
    let text = "\(recordDuration / 100_000).\(digits)"
    let field = Array((text + String(repeating: " ", count: max(0, 8 - text.utf8.count))).utf8.prefix(8))
    guard try descriptor.write(field.span, at: Self.durationOffset) == field.count else { throw failure }
  }

  /// Offset of the duration in the header; its length is eight characters.
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
    // SAFETY: the pointer to the name of the time zone in this structure is not used.
    var parts = unsafe tm()
    // SAFETY: both structures exist during the call, which fills the second.
    unsafe gmtime_r(&time, &parts)
    return unsafe [
      edf_set_startdatetime(
        file, parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec
      ),
      // The unit is 100 ns, but the time is rounded down to the unit of annotations. Otherwise, annotations
      // would be outside their record.
      edf_set_subsecond_starttime(file, CInt(nanoseconds % 1_000_000_000 / 100_000 * 1_000)),
    ]
  }

  private static func set(_ file: CInt, _ place: CInt, _ signal: Signal) -> [CInt] {
    // SAFETY: the texts are null-terminated strings for the duration of the calls.
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
