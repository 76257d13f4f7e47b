public import BLEWire

/// What goes wrong in the air. All but `disconnect` need the pace of the air.
public enum AirFault: Hashable, Sendable {
  /// Each packet of links and each advertisement arrives broken with this probability, 0 … 1: those of links are sent
  /// again, so data comes late and is not lost. 1 is the end of every link by its supervision time-out.
  case packetErrorRate(Double)
  /// Nobody hears the next so many packets of links: the events they are in end, and they are sent again.
  case burst(packets: Int)
  /// What this device sends is heard by nobody; it hears the others. They end their links with it by Connection
  /// Timeout, and then it does too, since they have stopped sending.
  case mute(DeviceAddress)
  /// This device hears nobody; it is heard by the others.
  case deafen(DeviceAddress)
  /// Neither hears nor is heard: Connection Timeout at both ends after the supervision time-out, Connection Failed to
  /// be Established on a link that has not yet had a packet, no more advertisements.
  case outOfRange(DeviceAddress)
  /// The end of the three above.
  case inRange(DeviceAddress)
  /// This device ends its links with this reason; Connection Timeout is going without a word.
  case disconnect(DeviceAddress, HCIStatus)
}

/// The faults in force.
struct AirFaults {
  var packetErrorRate: Double
  var burst = 0
  var mute: Set<DeviceAddress> = []
  var deaf: Set<DeviceAddress> = []
}

extension VirtualAir {
  /// Makes something go wrong from now on, or right again.
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

  // MARK: Asked by links and advertising

  /// Whether packets may get lost.
  var losesPackets: Bool { faults.packetErrorRate > 0 || faults.burst > 0 }

  func reaches(_ sender: DeviceAddress, _ receiver: DeviceAddress) -> Bool {
    configuration.pace == .immediate || (!faults.mute.contains(sender) && !faults.deaf.contains(receiver))
  }

  /// One more packet of a burst that nobody hears.
  func swallowsPacket() -> Bool {
    guard faults.burst > 0 else { return false }
    faults.burst -= 1
    return true
  }

  /// Whether a packet arrives broken.
  func breaksPacket() -> Bool {
    guard faults.packetErrorRate > 0, configuration.pace == .air else { return false }
    return random.happens(faults.packetErrorRate)
  }
}
