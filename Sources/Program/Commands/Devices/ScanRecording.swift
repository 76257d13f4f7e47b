import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Recording
import SensorSessions
import Synchronization

/// Records the advertisements of a scan. Writes a packet log during the scan and creates tables from it
/// afterwards.
final class ScanRecording: Sendable {
  private let directory: String
  private let file = Mutex<PacketLogFile?>(nil)

  private var path: String { directory + "/packets.pcapng" }

  /// Creates a recording.
  ///
  /// - Parameter directory: the directory, which must not contain a recording. A missing directory is
  ///   created.
  init(in directory: String) { self.directory = directory }

  func start() async throws {
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure("\(directory) already exists and is not empty; choose another --output")
    }
    let file = try await failing { () async throws(HostError) in
      do throws(SystemError) { try Files.createDirectory(directory) } catch { throw .system(error) }
      return try await PacketLogFile.start(path)
    }
    self.file.withLock { $0 = file }
  }

  /// Adds an advertising report to the packet log. Call this on the receive thread only.
  func take(_ report: borrowing AdvertisingReport, at time: ReceiveTime) {
    file.withLock { $0 }?.log(report, at: time)
  }

  /// Closes the packet log, and writes the log's sensor data into tables.
  func finish() async -> Outcome {
    guard let file = file.withLock({ $0.take() }) else { return Outcome(directory: directory) }
    var outcome = Outcome(directory: directory)
    outcome.log = await file.finish()
    guard outcome.log.packets > 0, outcome.log.failure == nil else { return outcome }
    let draft = directory + "/.tables"
    do throws(LogImport.Failure) {
      let imported = try await tables(into: draft).get()
      outcome.problems = imported.problems
      for capture in imported.captures { outcome.take(capture) }
      do throws(SystemError) { try Files.removeTree(draft) } catch { throw .output(error) }
    } catch {
      switch error {
      // A recording without sensor readings is not an error.
      case .noReadings: break
      case .interrupted: outcome.hasNoTables = true
      default: outcome.problems.append("\(error)")
      }
    }
    return outcome
  }

  /// Time limit for creating the tables after a signal. Reading a large log can take many seconds.
  private static let patience = Duration.milliseconds(300)

  private func tables(into draft: String) async -> Result<LogImport.Outcome, LogImport.Failure> {
    let path = path
    let importing = Task {
      Result { () throws(LogImport.Failure) in try LogImport(path, into: draft).run() }
    }
    do { return try await Interruption.leaving(after: Self.patience) { await importing.value } } catch {
      importing.cancel()
      return await importing.value
    }
  }

  struct Outcome {
    let directory: String
    var log = PacketLogFile.Outcome()
    var captures: [LogImport.Capture] = []
    var problems: [String] = []
    /// Whether tables are missing because a signal arrived before they were created.
    var hasNoTables = false

    init(directory: String) { self.directory = directory }

    /// Moves a device's tables into its directory.
    mutating func take(_ capture: LogImport.Capture) {
      var capture = capture
      let place = directory + "/" + capture.report.device.fileName
      do throws(SystemError) { try Files.rename(capture.directory, to: place) } catch {
        return problems.append("\(error)")
      }
      capture.directory = place
      captures.append(capture)
    }

    /// Prints a summary of the recording.
    ///
    /// - Throws: an error if the recording is incomplete.
    func tell() throws {
      Console.note("\(counted(log.packets, "report")) in \(directory)/packets.pcapng")
      for capture in captures {
        let name = capture.report.deviceName.map { $0.printable + " " } ?? ""
        let streams = capture.report.streams.filter { $0.samples > 0 }.map { "\($0.samples) \($0.name)" }
        Console.note(
          "\(name)\(capture.report.device): \(streams.joined(separator: ", ")) in \(capture.directory)")
      }
      if hasNoTables {
        Console.note(
          "interrupted before the tables were written; `ringtap import \(directory)/packets.pcapng -o "
            + "FOLDER` writes them"
        )
      }
      for problem in problems { Console.note(problem) }
      if let failure = log.failure { throw Failure(HostError.system(failure)) }
      guard problems.isEmpty else { throw ExitCode.failure }
      guard log.lost == 0 else {
        Console.note("\(counted(log.lost, "report was", "reports were")) not recorded: the disk was too slow")
        throw ExitCode(3)
      }
    }
  }
}
