import BLEStack
import BLEWire

extension VirtualController {
  /// The state that HCI Reset restores. Core 5.4, Vol 4, Part E, 7.3.2.
  struct State {
    var mask = EventMask()
    var scan = Scan()
    var acceptList: [DeviceAddress] = []
    var initiation: Initiation?
    /// The command set that the host used first. The other set is then disallowed.
    var family: ControllerCommand.Family?
    /// Default maximum size and duration of a data PDU. Core 5.4, Vol 6, Part B, 4.5.10.
    var defaultDataLength = DataLength.minimum
    var advertising = Advertising()
    /// Random address for scanning, connecting and legacy advertising, used if the own address type is
    /// random.
    var randomAddress = DeviceAddress.any
    /// Generator for LE Rand.
    var random = AirRandom()
  }

  /// The events that the host has enabled. Core 5.4, Vol 4, Part E, 7.3.1 and 7.8.1.
  struct EventMask {
    /// The specification's default after a reset; LE Meta events are disabled.
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
    /// Advertisers reported since scanning was enabled; used by the duplicates filter.
    var reported: Set<DeviceAddress> = []
  }

  /// A connection attempt that the host has started.
  struct Initiation {
    /// Address of the peer; `nil` for any device on the accept list.
    var peer: DeviceAddress?
    var ownAddress: DeviceAddress
    var parameters: LinkParameters
    var window: ListeningWindow
  }

  /// The time in which the radio listens: from the start of each `interval` since `start`, for `length`, in
  /// units of 0.625 ms.
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
