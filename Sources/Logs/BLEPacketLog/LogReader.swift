public import BLELinux
public import BLEWire

/// Reads a packet log of any kind: a file or standard input, in any format, plain or compressed. HCI logs are
/// read unchanged, and sniffer logs as the HCI packets that the central's host would have seen.
///
/// ```swift
/// let log = try LogReader(path: "btsnoop_hci.log.gz")
/// while log.read({ record in … }) {}
/// if let problem = log.problem { print(problem) }
/// ```
/// `read` lends the records of a piece of the file without copying; `next` returns a copy of each record. The
/// size of a piece bounds the memory. After an error there are no more records; the records before the error
/// are valid. Encrypted links of a sniffer log need a key, unless the log contains a legacy pairing with Just
/// Works or a passkey.
///
/// A closure that receives records must not use the reader.
public final class LogReader: Sequence, IteratorProtocol {
  /// Order and times of the records.
  public enum Times: Hashable, Sendable {
    case asWritten
    /// Order and times corrected by a `LogTimeline`, for statistics and measurements. Records are delivered
    /// with a short delay.
    case corrected
  }

  /// Meaning of the end of the file.
  public enum End: Hashable, Sendable {
    case final
    /// The file may grow, so an incomplete record at its end is no error.
    case growing
  }

  /// Path of the log; `-` for standard input; empty if the bytes come from the caller.
  public let path: String
  /// The problem that ended reading before the end of the log; `nil` if no problem occurred.
  public private(set) var problem: Problem?
  /// Number of bytes read so far, after decompression.
  public private(set) var byteCount = 0

  private var input: CompressedInput?
  private var parser = PacketLogReader()
  private var stage: RecordStage
  private var hasEnded = false
  /// Records for `next`. The records before `first` have been returned.
  private var records: [StoredPacketRecord] = []
  private var first = 0

  /// Opens a log.
  ///
  /// - Parameters:
  ///   - path: `-` for standard input.
  ///   - keys: long-term keys of links in a sniffer log.
  ///   - times: order and times of the records.
  /// - Throws: a problem with cause `unopened`. The first `read` shows whether the file is a log.
  public convenience init(
    path: String, keys: [AirKey] = [], times: Times = .asWritten
  ) throws(Problem) {
    try self.init(path, keys, times) { () throws(SystemError) in try CompressedInput(path: path) }
  }

  /// Opens a log that another process is writing.
  ///
  /// - Throws: a problem with cause `unopened` if the file cannot be opened or is not a regular file.
  package convenience init(regularFile path: String) throws(Problem) {
    try self.init(path, [], .asWritten) { () throws(SystemError) in try CompressedInput(regularFile: path) }
  }

  private init(
    _ path: String, _ keys: [AirKey], _ times: Times, _ open: () throws(SystemError) -> CompressedInput
  ) throws(Problem) {
    self.path = path
    stage = RecordStage(times, keys, passkeySearches: AirTranslator.passkeySearches.count)
    do throws(SystemError) { input = try open() } catch {
      throw Problem(path: path, cause: .unopened(error), records: 0, isTotal: true)
    }
  }

  /// Makes a reader of uncompressed bytes that are passed to `take`.
  public convenience init(keys: [AirKey] = []) {
    self.init(keys: keys, passkeySearches: AirTranslator.passkeySearches.count)
  }

  /// Creates a reader with a limit on passkey searches.
  ///
  /// - Parameter passkeySearches: maximum number of pairings for which the passkey is searched; a search
  ///   takes up to a million attempts.
  package init(keys: [AirKey], passkeySearches: Int) {
    path = ""
    stage = RecordStage(.asWritten, keys, passkeySearches: passkeySearches)
  }

  // MARK: Reading

  /// Reads the next piece of the file, and passes each completed record to `body`, in order.
  ///
  /// - Returns: whether more records may follow; `false` at the end of the file, and after a problem.
  @discardableResult
  public func read(to end: End = .final, _ body: (borrowing PacketRecord) -> Void) -> Bool {
    guard !hasEnded else { return false }
    do throws(CompressedInput.Problem) {
      let piece = try input?.next() ?? []
      do throws(WireError) {
        if !piece.isEmpty {
          try take(piece.span, body)
          return true
        }
        if end == .final { try finish(body) }
      } catch {
        stop(.record(error), isTotal: format == nil, body)
      }
    } catch {
      stop(.input(error), isTotal: recordCount == 0, body)
    }
    return false
  }

  /// Returns a copy of the next record; `nil` after the last one.
  public func next() -> StoredPacketRecord? {
    fill()
    guard first < records.count else { return nil }
    defer { first += 1 }
    return records[first]
  }

  /// Time of the record that `next` will return.
  package var nextTime: ReceiveTime? {
    fill()
    return first < records.count ? records[first].header.time : nil
  }

  private func fill() {
    guard first == records.count else { return }
    var piece: [StoredPacketRecord] = []
    // Swapping reuses the storage.
    swap(&piece, &records)
    piece.removeAll(keepingCapacity: true)
    first = 0
    while piece.isEmpty, read({ piece.append(StoredPacketRecord(copying: $0)) }) {}
    records = piece
  }

  /// Reads bytes, and passes each completed record to `body`, in order.
  ///
  /// - Throws: the errors of `PacketLogReader.read`.
  public func take(_ chunk: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void) throws(WireError) {
    byteCount += chunk.count
    // The stage is moved out of this object during the call, so that a record needs no access to the object.
    var stage = RecordStage(.asWritten, [], passkeySearches: 0)
    swap(&stage, &self.stage)
    defer { swap(&stage, &self.stage) }
    try parser.read(chunk) { stage.take($0, body) }
  }

  /// Ends the log.
  ///
  /// - Parameter body: receives the last records.
  /// - Throws: the errors of `PacketLogReader.finish`, after the last records.
  public func finish(_ body: (borrowing PacketRecord) -> Void = { _ in }) throws(WireError) {
    hasEnded = true
    stage.end(body)
    try parser.finish()
  }

  private func stop(_ cause: Problem.Cause, isTotal: Bool, _ body: (borrowing PacketRecord) -> Void) {
    if !hasEnded { stage.timeline.finish(body) }
    hasEnded = true
    problem = Problem(
      path: path, cause: cause, records: recordCount, isTotal: isTotal, foreignFile: parser.foreignFile)
  }

  // MARK: The log

  /// Format of the log; `nil` until the first bytes have been read.
  public var format: PacketLogFormat? { parser.format }
  /// Number of records of the file so far. An air packet may give several records.
  public var recordCount: Int { parser.recordCount }
  /// Number of packets that the log's writer lost, as of the last record.
  public var cumulativeDrops: UInt32 { parser.cumulativeDrops }
  /// Whether the file contains air packets.
  public var isFromAir: Bool { stage.isFromAir }
  /// Findings about the log's clock; empty for times as written.
  public var timeline: LogTimeline { stage.timeline }
  /// Whether the file is compressed.
  public var isCompressed: Bool { input?.isCompressed ?? false }

  /// Whether the log has adapters and notes, as far as its first records show.
  package var isMonitorLog: Bool {
    fill()
    return parser.hasMonitorRecords || format == .btsnoop(.monitor)
  }

  /// Whether `path` now names another file, or the file has become shorter, because the log was rotated or
  /// restarted.
  package var isReplaced: Bool { path != "-" && input?.isReplaced(at: path) == true }

  // MARK: What could not be read

  /// The problem that ended reading before the end of a log.
  public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Cause: Hashable, Sendable, CustomStringConvertible {
      /// The file could not be opened.
      case unopened(SystemError)
      /// The file could not be read or decompressed.
      case input(CompressedInput.Problem)
      /// The bytes are not a record.
      case record(WireError)

      public var description: String {
        switch self {
        case .unopened(let error): "\(error)"
        case .input(let error): "\(error)"
        case .record(let error): "\(error)"
        }
      }
    }

    let path: String
    public let cause: Cause
    /// Number of valid records before the problem.
    public let records: Int
    /// Whether no part of the file could be read as a log.
    public let isTotal: Bool
    /// Probable type of a file that is not a log.
    public var foreignFile: ForeignFile?

    /// The cause. For a file that is not a log, advice for this type of file.
    package var advice: String { foreignFile?.advice ?? "\(cause)" }

    /// Message for the user, with the name of the log and the number of valid records.
    public var description: String { "\(LogReader.name(of: path)): \(text)" }

    /// Text about the number of valid records before the problem, to be added to the cause.
    package var good: String {
      switch records {
      case 0: ""
      case 1: "; the record before is good"
      default: "; the \(counted(records, "record")) before are good"
      }
    }

    private var text: String {
      switch cause {
      case .unopened(let error):
        return "cannot open the log: \("\(error)".dropFirst(error.call.utf8.count + 2))"
      case .record(let error) where isTotal:
        if let number = PcapHeader.foreignLinkType(error) {
          return "its packets are of \(LinkType.unsupported(number))"
        }
        return "not a packet log: \(advice)"
      case .input, .record:
        return "\(cause)\(good)"
      }
    }
  }

  /// Returns the name of a log in messages.
  public static func name(of path: String) -> String { path == "-" ? "standard input" : path }

  package var name: String { Self.name(of: path) }

  /// Remark for the user about a log that was read to its end; `nil` if there is no remark.
  public var remark: String? {
    if let number = parser.foreignLinkType {
      let count = parser.foreignPackets
      let packets =
        switch (recordCount, count) {
        case (1, 1): "its only packet is"
        case (count, _): "all \(counted(count, "packet")) are"
        default: "\(count) of \(counted(recordCount, "packet")) \(count == 1 ? "is" : "are")"
        }
      return "\(packets) of \(LinkType.unsupported(number))"
    }
    return format != nil && recordCount == 0 ? "it contains no packets" : nil
  }

  /// Whether no packet of the log is readable.
  public var isForeign: Bool { parser.foreignPackets > 0 && parser.foreignPackets == recordCount }

  /// Returns the report about air packets, including connections that are still up; `nil` for an HCI log.
  public func airReport() -> AirReport? { isFromAir ? stage.translator.finish() : nil }
}

/// Converts the records in the file to the records that a reader returns: HCI packets in place of air
/// packets, with corrected times if requested.
private struct RecordStage: ~Copyable {
  var translator: AirTranslator
  var timeline = LogTimeline()
  private(set) var isFromAir = false
  private let times: LogReader.Times

  init(_ times: LogReader.Times, _ keys: [AirKey], passkeySearches: Int) {
    self.times = times
    translator = AirTranslator(keys, passkeySearches: passkeySearches)
  }

  mutating func take(_ record: borrowing PacketRecord, _ body: (borrowing PacketRecord) -> Void) {
    guard let air = record.header.air else {
      if times == .asWritten { return body(record) }
      return timeline.take(record, body)
    }
    isFromAir = true
    if times == .asWritten { return translator.take(record, air.linkType, body) }
    // The timeline is moved out of `self` during the call, because the call needs both.
    var timeline = LogTimeline()
    swap(&timeline, &self.timeline)
    translator.take(record, air.linkType) { timeline.take($0, body) }
    swap(&timeline, &self.timeline)
  }

  mutating func end(_ body: (borrowing PacketRecord) -> Void) {
    if isFromAir {
      var timeline = LogTimeline()
      swap(&timeline, &self.timeline)
      translator.end { if times == .asWritten { body($0) } else { timeline.take($0, body) } }
      swap(&timeline, &self.timeline)
    }
    timeline.finish(body)
  }
}
