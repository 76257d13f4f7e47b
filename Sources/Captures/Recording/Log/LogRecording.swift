public import BLEHost
public import BLELinux
import BLEPacketLog
public import BLEWire
package import JSONText

/// A source of records.
package protocol RecordSource: Sendable {
  /// Starts to pass records to `writer`.
  ///
  /// - Parameter onEnd: called after the last record.
  func start(
    into writer: PacketLogFile, onEnd: @escaping @Sendable () -> Void
  ) async throws(SystemError)
  /// Passes on the received records, and ends.
  func close() async
}

/// Records the traffic between the kernel and its controllers.
public struct LogRecording: Sendable {
  public enum Source: Sendable {
    /// The kernel's monitor, for all adapters or for one.
    case monitor(adapter: UInt16?)
    /// The log of another running ringtap process, from its start.
    case capture(RunningLog)
  }

  /// State of a recording, for a progress line.
  public struct Progress: Sendable {
    public var records: Int
    public var byteCount: Int
    public var lost: Int
    public var elapsed: Duration
  }

  /// Reason for the end of a recording.
  private enum End: Sendable { case count, duration, failure, source }

  /// Opens the source.
  private let open: @Sendable () throws(SystemError) -> any RecordSource
  private let isOfCapture: Bool
  public var plan: LogFilePlan
  public var duration: Duration?
  /// Maximum number of records of any kind.
  public var count: Int?

  public init(_ source: Source, to plan: LogFilePlan) {
    self.plan = plan
    switch source {
    case .monitor(let adapter):
      isOfCapture = false
      open = { () throws(SystemError) in try MonitorSource(adapter: adapter) }
    case .capture(let log):
      isOfCapture = true
      open = { () throws(SystemError) in try CaptureSource(log) }
    }
  }

  /// Creates a recording from a source other than the kernel, for tests of the writer.
  ///
  /// - Parameters:
  ///   - plan: files of the log.
  ///   - open: creates the source of one run.
  package init(
    to plan: LogFilePlan, from open: @escaping @Sendable () throws(SystemError) -> any RecordSource
  ) {
    self.plan = plan
    isOfCapture = false
    self.open = open
  }

  /// Records until a limit is reached, the source ends, or writing fails. If the task is cancelled, the
  /// recording ends as with Ctrl-C, and all received records are written.
  ///
  /// - Parameters:
  ///   - ready: called once when the recording has started.
  ///   - progress: called about once a second.
  /// - Throws: an error that prevents starting. Later failures are in the report.
  public func run(
    ready: @escaping @Sendable () -> Void, progress: @escaping @Sendable (Progress) -> Void
  ) async throws(LogFileError) -> LogRecordingReport {
    // Open the source first. If it fails, no file is created.
    let source = try opened()
    let (ends, end) = AsyncStream.makeStream(of: End.self, bufferingPolicy: .bufferingOldest(1))
    let writer: PacketLogFile
    do throws(LogFileError) {
      writer = try await PacketLogFile.start(plan, limit: count ?? .max) { failure in
        end.yield(failure == nil ? .count : .failure)
      }
    } catch {
      await source.close()
      throw error
    }
    let startedAt = SystemClock.now()
    do throws(SystemError) { try await source.start(into: writer) { end.yield(.source) } } catch {
      await source.close()
      _ = await writer.finish()
      throw .system(error)
    }
    ready()
    let begin = ContinuousClock.now
    let ticker = Task {
      while (try? await Task.sleep(for: .seconds(1))) != nil {
        let (records, byteCount) = writer.progress
        progress(
          Progress(
            records: records, byteCount: byteCount, lost: writer.drops, elapsed: ContinuousClock.now - begin))
      }
    }
    let timer = duration.map { duration in
      Task { if (try? await Task.sleep(for: duration)) != nil { end.yield(.duration) } }
    }
    var reason: End?
    // Cancelling the task ends this stream.
    for await end in ends {
      reason = end
      break
    }
    ticker.cancel()
    timer?.cancel()
    // The following steps must run even if the task is cancelled.
    let outcome = await Task {
      await source.close()
      return await writer.finish()
    }.value
    return report(outcome, writer, startedAt, reason)
  }

  private func opened() throws(LogFileError) -> any RecordSource {
    do throws(SystemError) { return try open() } catch {
      switch error.condition {
      case .notPermitted:
        throw .host(.notPermitted(action: "the kernel's monitor", capability: "CAP_NET_RAW"))
      case .unsupported: throw .host(.noBluetooth)
      default: throw .system(error)
      }
    }
  }

  private func report(
    _ outcome: PacketLogFile.Outcome, _ writer: PacketLogFile, _ startedAt: ReceiveTime, _ reason: End?
  ) -> LogRecordingReport {
    let endReason: StaticString =
      switch reason {
      case .count: "count reached"
      case .duration: "duration over"
      case .failure where outcome.isRemoved: "the log was removed"
      case .failure: "writing to the disk failed"
      case .source: "the capture ended"
      case nil: "interrupted"
      }
    var lost = LogRecordingReport.Loss(packetLog: outcome.lostInQueue, disk: outcome.lostOnDisk)
    // If the recording follows the log of another process, that log's drops happened before this writer.
    if isOfCapture {
      lost.packetLog += writer.sourceDrops
    } else {
      lost.kernelQueue = writer.sourceDrops
    }
    return LogRecordingReport(
      startedAt: startedAt, endedAt: SystemClock.now(), endReason: endReason.description,
      packets: outcome.packets, byteCount: outcome.byteCount, files: outcome.paths,
      repairedByteCount: outcome.tornByteCount, lost: lost,
      failure: outcome.failure)
  }
}

extension PacketLogFile {
  /// Queues a record of the kernel's monitor for the writer's thread. `signal` wakes the thread.
  package func push(opcode: UInt16, adapter: UInt16, time: ReceiveTime, _ packet: Span<UInt8>) {
    queue.push(tag: LogRecords.tag(opcode: opcode, adapter: adapter), time: time, packet)
  }

  package func signal() { wake.signal() }
}

/// Result of a recording: its files, and the number of records lost at each stage.
public struct LogRecordingReport: Sendable {
  public struct Loss: Hashable, Sendable {
    /// Number of records dropped by the kernel at the monitor's socket because ringtap was too slow.
    public var kernelQueue = 0
    /// Number of records dropped before the writer because the disk was too slow.
    public var packetLog = 0
    /// Number of records lost because writing to the disk failed.
    public var disk = 0

    public var total: Int { kernelQueue + packetLog + disk }
  }

  public var startedAt: ReceiveTime
  public var endedAt: ReceiveTime
  public var endReason: String
  /// Number of monitor records, including notes.
  public var packets: Int
  /// Number of bytes of the monitor records in the files.
  public var byteCount: Int
  /// Paths of the kept files, oldest first.
  public var files: [String]
  /// Size in bytes of the incomplete record that `--append` removed.
  public var repairedByteCount: Int
  public var lost: Loss
  public var failure: SystemError?

  /// Encodes the report as one JSON object and a line feed.
  package func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("startedAtNs", startedAt)
      line.member("endedAtNs", endedAt)
      line.member("endReason", endReason)
      line.member("packets", packets)
      line.member("bytes", byteCount)
      line.member("repairedBytes", repairedByteCount)
      line.member("lost") { line in
        line.member("kernelQueue", lost.kernelQueue)
        line.member("packetLog", lost.packetLog)
        line.member("disk", lost.disk)
      }
      line.key("files")
      line.array { line in
        for file in files { line.value(file) }
      }
    }
    line.endLine()
  }
}

/// File formats of a packet log that is being written.
public enum CaptureLogFormat: String, CaseIterable, Sendable {
  /// Timestamps in microseconds; readable by most programs. Each record contains the cumulative drop count.
  case btsnoop
  /// Timestamps in nanoseconds, as in the tables. Each adapter has its own interface and drop count.
  case pcapng

  public var fileName: String { "packets.\(rawValue)" }

  /// Selects the format of an HCI log by its file extension.
  init(path: String) { self = path.hasSuffix(".pcapng") ? .pcapng : .btsnoop }

  /// Name of the format in messages about a monitor's log.
  var name: StaticString {
    switch self {
    case .btsnoop: "btsnoop log of the monitor (2001)"
    case .pcapng: "pcapng file"
    }
  }
}

/// Path, format and rotation of a log.
public struct LogFilePlan: Hashable, Sendable {
  /// Action if the log already exists.
  public enum Existing: Hashable, Sendable { case fail, append }

  /// Path of the log; `-` is standard output.
  public var path: String
  public var format = CaptureLogFormat.btsnoop
  public var existing = Existing.fail
  /// Maximum size of a file, in bytes. Only a file with a single record can be larger.
  public var rotateByteCount: Int?
  /// Maximum duration of one file.
  public var rotateTime: Duration?
  /// Maximum number of records in one file.
  public var rotateCount: Int?
  /// Number of files to keep. The oldest files are deleted.
  public var keptFiles: Int?
  /// Kind of records in the log's queue.
  var records = LogRecords.monitor

  public init(path: String) { self.path = path }

  /// Whether the log is split into PATH.1, PATH.2 and so on, newest last. If not, it is the single file PATH.
  public var isSeries: Bool { rotateByteCount != nil || rotateTime != nil || rotateCount != nil }

  public func path(_ number: Int) -> String { isSeries ? "\(path).\(number)" : path }

  /// Returns the numbers of the existing files of the series, in order.
  func numbersThere() -> [Int] {
    let prefix = Files.name(of: path) + "."
    return Files.names(in: Files.folder(of: path)).compactMap { name in
      guard name.hasPrefix(prefix), let number = Int(name.dropFirst(prefix.count)), number > 0,
        "\(number)" == name.dropFirst(prefix.count)
      else { return nil }
      return number
    }.sorted()
  }
}

/// Error that prevents recording a log. Its description states the cause and the remedy.
public enum LogFileError: Error, Hashable, Sendable {
  /// The file already exists. Recordings are never overwritten.
  case exists(String)
  /// The file to append to has another format.
  case foreign(String, CaptureLogFormat)
  /// The file to append to is damaged before its end.
  case damaged(String, offset: Int)
  case host(HostError)
  case system(SystemError)
}

extension LogFileError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .exists(let path): "\(path) already exists; choose another name, or continue it with --append"
    case .foreign(let path, let format): "\(path) is not a \(format.name), so it cannot be continued as one"
    case .damaged(let path, let offset):
      "\(path) is damaged at byte \(offset), not only truncated at its end; record into another file"
    case .host(let error): "\(error)"
    case .system(let error): "\(error)"
    }
  }
}
