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
    var defaultDataLength = DataLength.minimum
    var advertising = Advertising()
    /// For scanning, connecting and legacy advertising under an own address of the type random.
    var randomAddress = DeviceAddress.any
    /// Behind LE Rand.
    var random = AirRandom()
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
    var window = ListeningWindow()
    /// Advertisers that were reported since scanning was enabled, for the duplicates filter.
    var reported: Set<DeviceAddress> = []
  }

  /// A connection that the host asked for and no advertiser has answered yet.
  struct Initiation {
    /// `nil`: any on the accept list.
    var peer: DeviceAddress?
    var ownAddress: DeviceAddress
    var parameters: LinkParameters
    var window: ListeningWindow
  }

  /// The radio listens from `start` on for `length` of each `interval`, in units of 0.625 ms.
  struct ListeningWindow {
    var interval: UInt16 = 0x10
    var length: UInt16 = 0x10
    var start = MonotonicTime(nanoseconds: 0)

    func isOpen(at time: MonotonicTime) -> Bool {
      let unit: Int64 = 625_000
      let elapsed = max(0, time.nanoseconds - start.nanoseconds)
      return elapsed % (Int64(interval) * unit) < Int64(length) * unit
    }
  }
}

extension HCIEventCode {
  static let dataBufferOverflow = HCIEventCode(rawValue: 0x1A)
}
