public import BLEWire

/// A fault of the air. All but `disconnect` need the pace `.air`.
public enum AirFault: Hashable, Sendable {
  /// Damages each link packet and advertisement with this probability, 0 … 1. Link packets are retransmitted,
  /// so data is late but not lost. With 1, every link ends by its supervision timeout.
  case packetErrorRate(Double)
  /// Drops the next link packets: the connection events they are in end, and they are retransmitted.
  case burst(packets: Int)
  /// Drops everything that this device sends; it still receives from others. Their links with it end with
  /// Connection Timeout, and then its own ends do too, because the others have stopped sending.
  case mute(DeviceAddress)
  /// Drops everything that is sent to this device; others still receive from it.
  case deafen(DeviceAddress)
  /// Drops everything from and to this device. Both ends report Connection Timeout after the supervision
  /// timeout, or Connection Failed to be Established on a link without a packet yet. Advertisements are no
  /// longer received.
  case outOfRange(DeviceAddress)
  /// Ends the three faults above.
  case inRange(DeviceAddress)
  /// This device ends its links with this reason; with Connection Timeout it vanishes without a packet.
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

  /// Consumes one packet of a burst and returns whether it is dropped.
  func swallowsPacket() -> Bool {
    guard faults.burst > 0 else { return false }
    faults.burst -= 1
    return true
  }

  /// Whether a packet is damaged.
  func breaksPacket() -> Bool {
    guard faults.packetErrorRate > 0, configuration.pace == .air else { return false }
    return random.happens(faults.packetErrorRate)
  }
}
