import BLEStack
import BLEWire

/// An emulated peripheral in the virtual air, with its link.
final class Station: Advertiser, LinkOwner {
  let peripheral: any VirtualPeripheral
  /// Index in the list of peripherals of the virtual air.
  let number: Int
  /// The virtual air, which sets this property when it is created.
  unowned var air: VirtualAir?
  private(set) var link: PeripheralLink?
  private var end: LinkEnd?
  var nextAdvertisement: MonotonicTime?

  /// The attributes in their state after the last link.
  private var database: GATTServerDatabase
  private var attributesVersion: Int

  init(_ peripheral: any VirtualPeripheral, number: Int) {
    self.peripheral = peripheral
    self.number = number
    database = GATTServerDatabase(peripheral.services)
    attributesVersion = peripheral.attributesVersion
  }

  private var now: MonotonicTime { air?.now ?? MonotonicTime(nanoseconds: 0) }

  // MARK: Advertiser

  var identity: DeviceAddress { link?.bearer.address ?? peripheral.advertisement?.address ?? .any }

  var advertisement: Advertisement? {
    if let end = peripheral.advertisingEnd, end <= now { return nil }
    return link == nil ? peripheral.advertisement : nil
  }

  /// Creates the peripheral's end of a link. This end accepts packets of the maximum length.
  func linkEnd(as address: DeviceAddress, to central: DeviceAddress, now: MonotonicTime) -> LinkEnd {
    let end = LinkEnd(
      .peripheral, VirtualController.handle(ofStation: number), owner: self, address: address, peer: central,
      now: now)
    end.allowedDataLength = .maximum
    return end
  }

  func connected(_ end: LinkEnd) {
    if attributesVersion != peripheral.attributesVersion {
      database = GATTServerDatabase(peripheral.services)
      attributesVersion = peripheral.attributesVersion
    }
    let link = PeripheralLink(
      end, database: database, receiveMTU: peripheral.receiveMTU, security: peripheral.security)
    self.link = link
    self.end = end
    peripheral.connected(link, now: now)
    settle()
  }

  /// Ends the link if the peripheral has requested it.
  func settle() {
    if let link, let end, let reason = link.takeEndReason() { end.link?.terminate(from: end, reason) }
  }

  // MARK: LinkOwner

  func received(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary, on end: LinkEnd) {
    guard let link else { return }
    let packet = ACLPacket(handle: end.handle, boundary: boundary, data: data)
    let written = link.receive(packet) { handle, value in peripheral.check(write: value, to: handle) }
    for handle in written { peripheral.written(handle, link: link, now: now) }
    settle()
  }

  func acknowledged(on end: LinkEnd) {
    guard let link, link.isFull, end.hasRoom else { return }
    link.isFull = false
    peripheral.roomAvailable(link, now: now)
    settle()
  }

  func ended(_ end: LinkEnd, _ reason: HCIStatus) {
    database = link?.database ?? database
    link = nil
    self.end = nil
    peripheral.disconnected(now: now)
    air?.resumeAdvertising()
  }

  func keyWanted(_ random: UInt64, _ diversifier: UInt16, on end: LinkEnd) {
    end.link?.answerEncryption(link?.key(random, diversifier))
  }

  func encryptionEnded(_ status: HCIStatus, isRefresh: Bool, on end: LinkEnd) {
    link?.encryptionEnded(status)
    settle()
  }

  func parametersChanged(on end: LinkEnd) {}
  func dataLengthChanged(on end: LinkEnd) {}
  func phyChanged(on end: LinkEnd) {}
  func featuresRead(on end: LinkEnd) {}
  func versionRead(on end: LinkEnd) {}
}
