import BLECore
import BLEStack
import BLEWire

extension VirtualController {
  /// Everything that HCI Reset puts back. Core 5.4, Vol 4, Part E, 7.3.2.
  struct State {
    var mask = EventMask()
    var scan = Scan()
    var acceptList: [DeviceAddress] = []
    var initiation: Initiation?
    /// The command set that the host has used first; the other one is disallowed from then on.
    var family: ControllerCommand.Family?
    /// Octets and microseconds of one data PDU. Core 5.4, Vol 6, Part B, 4.5.10.
    var defaultDataLength: (octets: UInt16, time: UInt16) = (27, 328)
    /// The state of the generator behind LE Rand: the same numbers in each run.
    var random: UInt64 = 0x9E37_79B9_7F4A_7C15
  }

  /// Which events the host wants. Core 5.4, Vol 4, Part E, 7.3.1 and 7.8.1.
  struct EventMask {
    /// As after a reset: no LE Meta event, as the specification has it.
    var events: UInt64 = 0x0000_1FFF_FFFF_FFFF
    var leEvents: UInt64 = 0x1F

    func allows(_ code: HCIEventCode) -> Bool {
      switch code {
      case .commandComplete, .commandStatus, .numberOfCompletedPackets: true
      case .leMeta: events & 1 << 61 != 0
      default: events & 1 << UInt64(code.rawValue - 1) != 0
      }
    }

    func allows(_ subevent: LESubevent) -> Bool {
      leEvents & 1 << UInt64(subevent.rawValue - 1) != 0
    }
  }

  struct Scan {
    var kind = ScanKind.passive
    var isEnabled = false
    var duplicates = DuplicateFilter.reportAll
    var acceptsListedOnly = false
    /// Advertisers that were reported since scanning was enabled, for the duplicates filter.
    var reported: Set<DeviceAddress> = []
  }

  /// A connection that the host asked for and no advertiser has answered yet.
  struct Initiation {
    /// `nil`: any on the accept list.
    var peer: DeviceAddress?
    var parameters: LinkParameters
  }
}

extension LESubevent {
  static let dataLengthChange = LESubevent(rawValue: 0x07)
  static let phyUpdateComplete = LESubevent(rawValue: 0x0C)
}
