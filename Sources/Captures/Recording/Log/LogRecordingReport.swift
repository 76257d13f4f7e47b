public import BLELinux
public import BLEWire
package import JSONText

/// Result of a recording: its files, and the records lost at each stage.
public struct LogRecordingReport: Sendable {
  public struct Loss: Hashable, Sendable {
    /// Dropped by the kernel at the monitor's socket because ringtap was too slow.
    public var kernelQueue = 0
    /// Dropped before the writer because the disk was too slow.
    public var packetLog = 0
    /// Lost because writing to the disk failed.
    public var disk = 0

    public var total: Int { kernelQueue + packetLog + disk }
  }

  public var startedAt: ReceiveTime
  public var endedAt: ReceiveTime
  public var endReason: String
  /// Monitor records, including notes.
  public var packets: Int
  /// Bytes of the monitor records in the files.
  public var byteCount: Int
  /// Paths of the kept files, oldest first.
  public var files: [String]
  /// Bytes of a torn record that `--append` removed.
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
