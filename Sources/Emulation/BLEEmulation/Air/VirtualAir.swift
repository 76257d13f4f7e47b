public import BLEWire

/// The simulated radio channel between virtual controllers and emulated peripherals. It determines which
/// devices receive a packet, and when.
///
/// Pass the current time to each call; the time must not decrease. All controllers of a virtual air run on
/// one thread. A peripheral that is connected to one controller does not advertise to the others. If a
/// controller's host advertises, other controllers receive it like a peripheral.
///
/// A controller has one radio for all its links, so their events do not overlap. In this model, scanning and
/// advertising do not use the radio.
public final class VirtualAir {
  /// Speed of the simulation.
  public enum Pace: Hashable, Sendable {
    /// As fast as the processor allows: data arrives when it is sent, every advertisement is received,
    /// nothing is lost. Peripherals wait for a slow host.
    case immediate
    /// As fast as a real radio, with connection events, packet durations, scan windows and timeouts.
    case air
  }

  public struct Configuration: Hashable, Sendable {
    public var pace: Pace
    /// Probability that a packet is damaged, 0 … 1. Requires the pace `.air`.
    public var packetErrorRate: Double
    /// Maximum number of frames queued in a peripheral. At the limit, the peripheral must wait for room.
    public var queuedFrames: Int
    /// Seed of all random events. Runs with the same seed are equal.
    public var seed: UInt64
    /// Faults that are active from the start.
    public var faults: [AirFault]

    public init(
      pace: Pace = .immediate, packetErrorRate: Double = 0, queuedFrames: Int = 64, seed: UInt64 = 1,
      faults: [AirFault] = []
    ) {
      precondition((0...1).contains(packetErrorRate) && queuedFrames > 0)
      self.faults = faults
      self.pace = pace
      self.packetErrorRate = packetErrorRate
      self.queuedFrames = queuedFrames
      self.seed = seed
    }
  }

  public let configuration: Configuration
  /// The peripherals, in the order given.
  public var peripherals: [any VirtualPeripheral] { stations.map(\.peripheral) }

  let stations: [Station]
  private var controllers: [Member] = []
  private var links: [AirLink] = []
  private(set) var now = MonotonicTime(nanoseconds: 0)
  var faults: AirFaults
  var random: AirRandom
  /// Number of connection events of all links, not counting skipped events.
  package internal(set) var eventCount = 0
  /// Called with each frame of a peripheral that is lost in the simulation.
  package var whenFrameLost: ((FrameLoss, Span<UInt8>) -> Void)?

  /// A controller. The reference is unowned, because controllers retain the virtual air.
  private struct Member {
    unowned let controller: VirtualController
    let identity: ObjectIdentifier
  }

  public init(
    _ configuration: Configuration = Configuration(), peripherals: [any VirtualPeripheral] = []
  ) {
    precondition(peripherals.count < 0x0D00)
    self.configuration = configuration
    faults = AirFaults(packetErrorRate: configuration.packetErrorRate)
    random = AirRandom(seed: configuration.seed)
    stations = peripherals.enumerated().map { Station($1, number: $0) }
    for station in stations { station.air = self }
    for fault in configuration.faults { inject(fault, now: now) }
  }

  func add(_ controller: VirtualController) {
    controllers.append(Member(controller: controller, identity: ObjectIdentifier(controller)))
  }

  /// Removes a controller that has ended. Its links stop sending without notifying their peers.
  func remove(_ identity: ObjectIdentifier) {
    controllers.removeAll { $0.identity == identity }
    for link in links {
      for end in [link.central, link.peripheral] where end.isOpen && end.ownerIdentity == identity {
        link.abandon(end)
      }
    }
  }

  // MARK: Time

  /// Performs all steps that are due; at the pace `.air`, in chronological order. If this is called late, the
  /// results are unchanged, but hosts receive them late.
  public func advance(to time: MonotonicTime) {
    switch configuration.pace {
    case .immediate:
      now = max(now, time)
      doWhatIsDue()
    case .air:
      while let next = deadline, next <= time {
        now = max(now, next)
        doWhatIsDue()
      }
      now = max(now, time)
    }
  }

  /// Advances to the time of a host's packet. At the pace `.air`, performs earlier steps first.
  func receive(now time: MonotonicTime) {
    if configuration.pace == .air { advance(to: time) }
    now = max(now, time)
  }

  private func doWhatIsDue() {
    for link in links {
      if let deadline = link.deadline, deadline <= now { link.step(now: now) }
    }
    for station in stations {
      if let link = station.link {
        if let deadline = station.peripheral.deadline, deadline <= now {
          station.peripheral.expired(link, now: now)
          station.settle()
        }
        if let deadline = link.securityDeadline, deadline <= now { link.expireSecurity(now: now) }
      } else {
        advertise(station)
      }
    }
    for member in controllers {
      if member.controller.state.advertising.isEnabled { advertise(member.controller) }
      member.controller.releaseDelayed(now: now)
    }
  }

  /// Next time to call `advance`; `nil` if nothing happens without a packet from a host.
  public var deadline: MonotonicTime? {
    var earliest: MonotonicTime?
    func consider(_ time: MonotonicTime?) {
      if let time, earliest.map({ time < $0 }) ?? true { earliest = time }
    }
    for link in links { consider(link.deadline) }
    for station in stations {
      if let link = station.link {
        consider(station.peripheral.deadline)
        consider(link.securityDeadline)
      } else if isHeard(station) {
        consider(station.nextAdvertisement)
      }
    }
    for member in controllers {
      if member.controller.state.advertising.isEnabled, isHeard(member.controller) {
        consider(member.controller.nextAdvertisement)
      }
      consider(member.controller.delayedDeadline)
    }
    return earliest
  }

  // MARK: Advertising

  /// Returns whether a controller other than the advertiser is listening.
  private func isHeard(_ advertiser: some Advertiser) -> Bool {
    controllers.contains { $0.controller !== advertiser && $0.controller.isListening }
  }

  /// Resumes each advertiser's schedule when a controller starts to listen.
  func resumeAdvertising() {
    for station in stations where station.link == nil { resume(station, place: station.number) }
    for (index, member) in controllers.enumerated() where member.controller.state.advertising.isEnabled {
      resume(member.controller, place: stations.count + index)
    }
  }

  /// Interval between the first advertisements of successive advertisers, after a controller starts to
  /// listen.
  private static let advertisementSpacing = Duration.milliseconds(5)

  private func resume(_ advertiser: some Advertiser, place: Int) {
    guard isHeard(advertiser), let interval = advertiser.advertisement?.interval else { return }
    guard let last = advertiser.nextAdvertisement else {
      advertiser.nextAdvertisement = now.advanced(by: Self.advertisementSpacing * (place + 1))
      return
    }
    if last < now {
      let missed = Int64(last.duration(to: now) / interval) + 1
      advertiser.nextAdvertisement = last.advanced(by: interval * Double(missed))
    }
  }

  /// Sends an advertisement if it is due. Each controller that receives it connects or reports it.
  private func advertise(_ advertiser: some Advertiser) {
    guard isHeard(advertiser), let due = advertiser.nextAdvertisement, due <= now else { return }
    guard let advertisement = advertiser.advertisement else {
      advertiser.nextAdvertisement = nil
      return
    }
    var next = due.advanced(by: advertisement.interval)
    if configuration.pace == .air {
      next = next.advanced(nanoseconds: random.next(through: AirTiming.maximumAdvertisingDelay))
    }
    // Missed advertisements are skipped.
    advertiser.nextAdvertisement = next <= now ? now.advanced(by: advertisement.interval) : next
    for member in controllers where member.controller !== advertiser {
      let controller = member.controller
      guard reaches(advertiser.identity, controller.configuration.address), !breaksPacket() else { continue }
      if let initiation = controller.initiation(for: advertisement, now: now) {
        return connect(controller, to: advertiser, advertisement, initiation)
      }
      controller.hear(advertisement, now: now)
    }
  }

  // MARK: Links

  private func connect(
    _ controller: VirtualController, to advertiser: some Advertiser, _ advertisement: Advertisement,
    _ initiation: VirtualController.Initiation
  ) {
    let central = LinkEnd(
      .central, controller.freeHandle(for: advertiser), owner: controller,
      address: controller.configuration.address, peer: advertisement.address, now: now)
    let peripheral = advertiser.linkEnd(as: advertisement.address, to: initiation.ownAddress, now: now)
    // Total duration of advertisement, pause, CONNECT_IND, and delay of the transmit window. Core 5.4, Vol 6,
    // Part B, 4.4.2.3 and 4.5.3.
    let delay =
      LEPHY.le1M.airTime(payload: 6 + advertisement.data.count) + AirTiming.interFrameSpace
      + LEPHY.le1M.airTime(payload: AirTiming.connectRequestByteCount) + AirTiming.transmitWindowDelay
    let link = AirLink(
      self, central: central, peripheral: peripheral, initiation.parameters,
      firstAnchor: firstAnchor(
        now.advanced(nanoseconds: delay), of: controller, interval: Int64(initiation.parameters.interval)),
      now: now)
    links.append(link)
    controller.connected(central)
    // If the advertiser does not receive the CONNECT_IND, it continues to advertise. The central detects the
    // failure by timeout.
    if reaches(controller.identity, advertiser.identity) {
      advertiser.nextAdvertisement = nil
      advertiser.connected(peripheral)
    } else {
      peripheral.isOpen = false
    }
  }

  /// Returns the time of a link's first event: the time in the transmit window that is farthest from the
  /// events of the central's other links.
  ///
  /// Core 5.4, Vol 6, Part B, 4.5.3. The offset is in units of 1.25 ms, from 0 to the interval.
  private func firstAnchor(
    _ earliest: MonotonicTime, of controller: VirtualController, interval: Int64
  ) -> MonotonicTime {
    let others = links.filter { $0.involves(ObjectIdentifier(controller)) }
    guard configuration.pace == .air, !others.isEmpty else { return earliest }
    var best = (anchor: earliest, distance: Int64(-1))
    for offset in 0..<interval {
      let anchor = earliest.advanced(nanoseconds: offset * AirTiming.intervalUnit)
      let distance = others.map { $0.distance(of: anchor) }.min() ?? 0
      if distance > best.distance { best = (anchor, distance) }
    }
    return best.anchor
  }

  /// Returns the time at which another link next needs a radio that this link uses, or `nil` if there is
  /// none.
  func nextClaim(besides link: AirLink) -> MonotonicTime? {
    var earliest: MonotonicTime?
    for other in links where other !== link && other.sharesRadio(with: link) {
      if let claim = other.claim, earliest.map({ claim < $0 }) ?? true { earliest = claim }
    }
    return earliest
  }

  /// Returns whether an event of this link must be skipped, because the radio is busy, or because another
  /// link that has missed more events would miss its next event.
  func isRadioTaken(for link: AirLink, until end: MonotonicTime) -> Bool {
    links.contains { other in
      guard other !== link, other.sharesRadio(with: link) else { return false }
      if other.isInEvent { return true }
      return other.missedInARow > link.missedInARow && other.claim.map { $0 < end } ?? false
    }
  }

  /// Number of links that are open at one or both ends.
  package var linkCount: Int { links.count }

  func forget(_ link: AirLink) { links.removeAll { $0 === link } }

  /// Returns the links of the device with this address.
  func links(of address: DeviceAddress) -> [AirLink] {
    links.filter { $0.central.address == address || $0.peripheral.address == address }
  }

  /// Advances all links to a time. Call this before their conditions change.
  func scheduleLinks(now time: MonotonicTime) {
    advance(to: time)
    for link in links { link.schedule() }
  }
}

/// A connectable device: an emulated peripheral, or a controller whose host advertises.
protocol Advertiser: AnyObject {
  /// Address by which an `AirFault` refers to the advertiser.
  var identity: DeviceAddress { get }
  /// The current advertisement; `nil` while the device does not advertise.
  var advertisement: Advertisement? { get }
  /// Time at which the next advertisement is due. Set when a controller starts to listen.
  var nextAdvertisement: MonotonicTime? { get set }
  /// Creates the advertiser's end of a new link.
  func linkEnd(as address: DeviceAddress, to central: DeviceAddress, now: MonotonicTime) -> LinkEnd
  func connected(_ end: LinkEnd)
}
