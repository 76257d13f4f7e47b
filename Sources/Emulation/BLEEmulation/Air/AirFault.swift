public import BLEWire

/// A fault of the virtual air. All faults except `disconnect` require the pace `.air`.
public enum AirFault: Hashable, Sendable {
  /// Damages each link packet and advertisement with this probability, 0 … 1. Link packets are retransmitted,
  /// so data is delayed but not lost. At 1, every link ends by supervision timeout.
  case packetErrorRate(Double)
  /// Drops this number of link packets. The connection events of these packets end, and the packets are
  /// retransmitted.
  case burst(packets: Int)
  /// Drops all packets that this device sends. The device still receives. At its peers, links with the device
  /// end with Connection Timeout. The peers then stop sending, so the links also end at the device.
  case mute(DeviceAddress)
  /// Drops all packets sent to this device. Other devices still receive packets from this device.
  case deafen(DeviceAddress)
  /// Drops all packets from and to this device. After the supervision timeout both ends of a link report
  /// Connection Timeout; on a link without a packet yet, Connection Failed to be Established. Advertisements
  /// are no longer received.
  case outOfRange(DeviceAddress)
  /// Ends `mute`, `deafen` and `outOfRange` for this device.
  case inRange(DeviceAddress)
  /// Makes this device end its links with this reason. With Connection Timeout, the device disappears without
  /// sending a packet.
  case disconnect(DeviceAddress, HCIStatus)
}

/// The active faults.
struct AirFaults {
  var packetErrorRate: Double
  var burst = 0
  var mute: Set<DeviceAddress> = []
  var deaf: Set<DeviceAddress> = []
}

extension VirtualAir {
  /// Starts or ends a fault.
  public func inject(_ fault: AirFault, now: MonotonicTime) {
    scheduleLinks(now: now)
    switch fault {
    case .packetErrorRate(let rate): faults.packetErrorRate = min(max(rate, 0), 1)
    case .burst(let packets): faults.burst = max(0, packets)
    case .mute(let address): faults.mute.insert(address)
    case .deafen(let address): faults.deaf.insert(address)
    case .outOfRange(let address):
      faults.mute.insert(address)
      faults.deaf.insert(address)
    case .inRange(let address):
      faults.mute.remove(address)
      faults.deaf.remove(address)
    case .disconnect(let address, let reason):
      for link in links(of: address) {
        link.terminate(from: link.central.address == address ? link.central : link.peripheral, reason)
      }
    }
  }

  // MARK: Queried by links and advertising

  /// Whether packets can be lost.
  var losesPackets: Bool { faults.packetErrorRate > 0 || faults.burst > 0 }

  func reaches(_ sender: DeviceAddress, _ receiver: DeviceAddress) -> Bool {
    configuration.pace == .immediate || (!faults.mute.contains(sender) && !faults.deaf.contains(receiver))
  }

  /// Counts one packet of a burst. Returns whether to drop the packet.
  func swallowsPacket() -> Bool {
    guard faults.burst > 0 else { return false }
    faults.burst -= 1
    return true
  }

  /// Decides at random whether a packet is damaged. Returns `true` if so.
  func breaksPacket() -> Bool {
    guard faults.packetErrorRate > 0, configuration.pace == .air else { return false }
    return random.happens(faults.packetErrorRate)
  }
}
