package import BLEWire

/// What others on one controller do to our raw scan, by the commands of theirs that pass.
///
/// When a program connects, the kernel turns any scan off, scans for that device alone, and leaves it off
/// (`hci_connect_le_scan`, `hci_update_passive_scan` in `net/bluetooth`). Ours may go on when nobody else scans or
/// connects any more: a scan turned on amid a connect would have the controller refuse the kernel's next command.
package struct ScanInterruption: Hashable {
  /// The kernel's commands of one connect follow each other within milliseconds.
  package static let pause = Duration.seconds(1)

  private var othersScan = false
  private var othersConnect = false
  /// Since when our scan is off.
  package private(set) var began: MonotonicTime?
  private var latest = MonotonicTime(nanoseconds: 0)

  package init() {}

  /// Whether the controller is at work for others: what is on now is theirs.
  package var isOthersTurn: Bool { othersScan || othersConnect }

  /// Until when to wait before it is turned on again; `nil` where it is on, or others are not done.
  package var resumption: MonotonicTime? {
    began == nil || isOthersTurn ? nil : latest.advanced(by: Self.pause)
  }

  /// A command that the kernel, or another program, gives the controller while our scan is on.
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

  /// A command of others has failed.
  package mutating func takeFailure(of opcode: HCIOpcode) {
    switch opcode {
    case .leSetScanEnable, .leSetExtendedScanEnable: othersScan = false
    case .leCreateConnection, .leExtendedCreateConnection: othersConnect = false
    default: break
    }
  }

  /// A connect has ended, with a link or without.
  package mutating func takeConnectionComplete(at time: MonotonicTime) {
    othersConnect = false
    latest = time
  }

  /// Our scan could not be turned on: to be tried again.
  package mutating func postpone(at time: MonotonicTime) { latest = time }
}
