public import BLELinux
public import BLEWire
package import JSONText

/// What was recorded, and what was lost where.
public struct LogRecordingReport: Sendable {
  public struct Loss: Hashable, Sendable {
    /// Dropped by the kernel at the monitor's socket: we were too slow.
    public var kernelQueue = 0
    /// Dropped before the writer: the disk was too slow.
    public var packetLog = 0
    /// Refused by the disk.
    public var disk = 0

    public var total: Int { kernelQueue + packetLog + disk }
  }

  public var startedAt: ReceiveTime
  public var endedAt: ReceiveTime
  public var endReason: String
  /// Records of the monitor, notes included.
  public var packets: Int
  /// Octets of them in the files.
  public var byteCount: Int
  /// Those that are kept, the oldest first.
  public var files: [String]
  /// Octets of a torn record that `--append` cut off.
  public var repairedByteCount: Int
  public var lost: Loss
  public var failure: SystemError?

  /// One JSON object and a line feed.
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
