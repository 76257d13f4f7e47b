package import BLEWire

/// Detects when the kernel or another program interrupts a raw scan, from the commands that it sends to the
/// controller.
///
/// When a program connects, the kernel turns off any scan, scans for that device only, and leaves the scan
/// off (`hci_connect_le_scan`, `hci_update_passive_scan` in `net/bluetooth`). Our scan may resume when no
/// other program scans or connects any more: turning it on during a connect would make the controller refuse
/// the kernel's next command.
package struct ScanInterruption: Hashable {
  /// The kernel sends the commands of one connect within milliseconds.
  package static let pause = Duration.seconds(1)

  private var othersScan = false
  private var othersConnect = false
  /// When our scan was interrupted; `nil` if it is on.
  package private(set) var began: MonotonicTime?
  private var latest = MonotonicTime(nanoseconds: 0)

  package init() {}

  /// Whether other programs use the controller; a scan that is on is theirs.
  package var isOthersTurn: Bool { othersScan || othersConnect }

  /// Time to resume the scan; `nil` if it is on, or if other programs are still active.
  package var resumption: MonotonicTime? {
    began == nil || isOthersTurn ? nil : latest.advanced(by: Self.pause)
  }

  /// Processes a command that the kernel or another program sends while our scan is on.
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

  /// Processes a failed command of another program.
  package mutating func takeFailure(of opcode: HCIOpcode) {
    switch opcode {
    case .leSetScanEnable, .leSetExtendedScanEnable: othersScan = false
    case .leCreateConnection, .leExtendedCreateConnection: othersConnect = false
    default: break
    }
  }

  /// Processes the end of a connect, with or without a link.
  package mutating func takeConnectionComplete(at time: MonotonicTime) {
    othersConnect = false
    latest = time
  }

  /// Our scan could not be turned on; defers the retry.
  package mutating func postpone(at time: MonotonicTime) { latest = time }
}
