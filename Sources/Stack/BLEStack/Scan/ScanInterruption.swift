package import BLEWire

/// Detects that the kernel or another program interrupts a raw scan, by watching the commands sent to the
/// controller.
///
/// When a program connects, the kernel turns off any scan, scans for that device only, and leaves the scan
/// off (`hci_connect_le_scan`, `hci_update_passive_scan` in `net/bluetooth`). Our scan may resume once no
/// other program scans or connects. If it resumed during a connection attempt, the controller would refuse
/// the kernel's next command.
package struct ScanInterruption: Hashable {
  /// Pause after the last command before the scan resumes. The kernel sends the commands of a connection
  /// attempt within milliseconds of each other.
  package static let pause = Duration.seconds(1)

  private var othersScan = false
  private var othersConnect = false
  /// When our scan was interrupted; `nil` if it is on.
  package private(set) var began: MonotonicTime?
  private var latest = MonotonicTime(nanoseconds: 0)

  package init() {}

  /// Whether other programs use the controller. A scan that is on then belongs to them.
  package var isOthersTurn: Bool { othersScan || othersConnect }

  /// When to resume the scan; `nil` if it is on or other programs are still active.
  package var resumption: MonotonicTime? {
    began == nil || isOthersTurn ? nil : latest.advanced(by: Self.pause)
  }

  /// Processes a command of the kernel or another program.
  package mutating func take(_ command: borrowing HCICommandPacket, at time: MonotonicTime) {
    switch command.opcode {
    case .leSetScanEnable, .leSetExtendedScanEnable:
      othersScan = !command.parameters.isEmpty && command.parameters[0] != 0
      if began == nil { began = time }
    case .leSetScanParameters, .leSetExtendedScanParameters, .leCreateConnectionCancel: break
    case .leCreateConnection, .leExtendedCreateConnection: othersConnect = true
    default: return
    }
    latest = time
  }

  /// Processes the failure of another program's command.
  package mutating func takeFailure(of opcode: HCIOpcode) {
    switch opcode {
    case .leSetScanEnable, .leSetExtendedScanEnable: othersScan = false
    case .leCreateConnection, .leExtendedCreateConnection: othersConnect = false
    default: break
    }
  }

  /// Processes the end of a connection attempt, with or without a link.
  package mutating func takeConnectionComplete(at time: MonotonicTime) {
    othersConnect = false
    latest = time
  }

  /// Defers the next attempt to resume the scan, after a failed one.
  package mutating func postpone(at time: MonotonicTime) { latest = time }
}
