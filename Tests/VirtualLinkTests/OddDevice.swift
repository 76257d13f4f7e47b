import BLEEmulation
import BLEStack
import BLEWire

/// A heart-rate strap with its own attribute server; the base class of devices that violate the
/// specification.
///
/// The server is independent of `ATTServer`. Each subclass is a device from a bug report and overrides the
/// behaviour in which that device differs.
class OddDevice: VirtualPeripheral {
  struct Attribute {
    let type: [UInt8]
    var value: [UInt8]
    /// Last handle of the group if this is a service.
    var end: UInt16 = 0
  }

  static let address = DeviceAddress(bits: 0xC412_3456_789A, type: .random)
  private(set) var attributes: [Attribute] = []
  private(set) var measurement: UInt16 = 0
  /// Handles and values that the central has written.
  private(set) var written: [(handle: UInt16, value: [UInt8])] = []
  private(set) var linkCount = 0
  private(set) var opcodes: [UInt8] = []
  var link: PeripheralLink?
  /// PDUs to send when the next request arrives, before its response.
  var late: [[UInt8]] = []
  var isMeasuring = false
  private var next: MonotonicTime?
  private(set) var count = 0

  init() { build() }

  /// The advertised name.
  var name = "Odd"

  // MARK: What subclasses change

  /// Builds the attributes: service 180d, with characteristics as type, properties, value, descriptors.
  func build() {
    service(0x1800, [(0x2A00, 0x02, Array("Odd".utf8), [])])
    buildHeartRate()
    service(0x180F, [(0x2A19, 0x02, [80], [])])
    service(0x180A, [(0x2A29, 0x02, Array("Odd".utf8), []), (0x2A26, 0x02, Array("1.0".utf8), [])])
  }
  func buildHeartRate() {
    service(0x180D, [(0x2A37, 0x10, [], [0x2902]), (0x2A38, 0x02, [1], [])])
  }
  func connected() {}
  func exchangeMTU() -> [[UInt8]] { [[0x03, 0xF7, 0x00]] }
  func answer(_ pdu: [UInt8], to request: [UInt8]) -> [[UInt8]] { [pdu] }
  func notFound(_ request: [UInt8]) -> [[UInt8]] { [Self.error(request[0], Self.handle(request), 0x0A)] }
  /// - Returns: The PDUs to send instead of a response; `nil` for the usual response.
  func write(_ handle: UInt16, _ value: [UInt8]) -> [[UInt8]]? { nil }
  func value(of handle: UInt16) -> [UInt8] { attributes[Int(handle) - 1].value }

  // MARK: Building

  func service(_ uuid: UInt16, _ characteristics: [(UInt16, UInt8, [UInt8], [UInt16])]) {
    let start = attributes.count
    attributes.append(Attribute(type: Self.octets(0x2800), value: Self.octets(uuid)))
    for (type, properties, value, descriptors) in characteristics {
      let handle = UInt16(attributes.count + 2)
      attributes.append(
        Attribute(type: Self.octets(0x2803), value: [properties] + Self.octets(handle) + Self.octets(type)))
      attributes.append(Attribute(type: Self.octets(type), value: value))
      if type == 0x2A37, properties & 0x30 != 0 { measurement = handle }
      for descriptor in descriptors {
        attributes.append(Attribute(type: Self.octets(descriptor), value: [0, 0]))
      }
    }
    attributes[start].end = UInt16(attributes.count)
  }

  static func octets(_ value: UInt16) -> [UInt8] { [UInt8(value & 0xFF), UInt8(value >> 8)] }
  static func error(_ request: UInt8, _ handle: UInt16, _ code: UInt8) -> [UInt8] {
    [0x01, request] + octets(handle) + [code]
  }
  static func handle(_ pdu: [UInt8], at offset: Int = 1) -> UInt16 {
    UInt16(pdu[offset]) | UInt16(pdu[offset + 1]) << 8
  }

  // MARK: The peripheral

  var advertisement: Advertisement? {
    Advertisement(
      address: Self.address, interval: .milliseconds(20),
      data: [0x02, 0x01, 0x06, 0x03, 0x03, 0x0D, 0x18, UInt8(name.utf8.count + 1), 0x09] + name.utf8)
  }
  var services: [GATTServiceDescription] { [] }

  func connected(_ link: PeripheralLink, now: MonotonicTime) {
    self.link = link
    linkCount += 1
    (isMeasuring, late, next) = (false, [], now)
    link.answerATT { [unowned self] pdu in respond(pdu.indices.map { pdu[$0] }) }
    connected()
  }

  func disconnected(now: MonotonicTime) { (link, isMeasuring) = (nil, false) }

  func startMeasuring() { isMeasuring = true }
  func end() { link?.disconnect(HCIStatus(rawValue: 0x13)) }

  var deadline: MonotonicTime? { next }

  func expired(_ link: PeripheralLink, now: MonotonicTime) {
    next = now.advanced(by: .milliseconds(20))
    guard isMeasuring else { return }
    let pdu = [0x1B] + Self.octets(measurement) + [0x00, UInt8(60 + count % 40)]
    link.sendATT(pdu.span)
    count += 1
  }

  // MARK: The server

  private func respond(_ request: [UInt8]) -> [[UInt8]] {
    opcodes.append(request[0])
    let before = late
    late = []
    return before + response(to: request)
  }

  private func response(to request: [UInt8]) -> [[UInt8]] {
    switch request[0] {
    case 0x02: return exchangeMTU()
    case 0x04, 0x08, 0x10: return search(request)
    case 0x06:
      let found = handles(request).filter {
        let attribute = attributes[Int($0) - 1]
        return attribute.type == Array(request[5...6]) && attribute.value == Array(request[7...])
      }
      guard !found.isEmpty else { return notFound(request) }
      return answer(
        [0x07] + found.flatMap { Self.octets($0) + Self.octets(attributes[Int($0) - 1].end) }, to: request)
    case 0x0A, 0x0C:
      let offset = request[0] == 0x0C ? Int(Self.handle(request, at: 3)) : 0
      return answer(
        [request[0] + 1] + value(of: Self.handle(request)).dropFirst(offset).prefix(22), to: request)
    case 0x12, 0x52: return take(request)
    default: return request[0] & 0x41 == 0 ? [Self.error(request[0], 0, 6)] : []
    }
  }

  private func handles(_ request: [UInt8]) -> [UInt16] {
    let (first, last) = (Self.handle(request), min(Self.handle(request, at: 3), UInt16(attributes.count)))
    return first <= last ? Array(first...last) : []
  }

  private func search(_ request: [UInt8]) -> [[UInt8]] {
    let isInformation = request[0] == 0x04
    var (items, size): ([UInt8], Int?) = ([], nil)
    for handle in handles(request) {
      let attribute = attributes[Int(handle) - 1]
      guard isInformation || attribute.type == Array(request[5...]) else { continue }
      let item: [UInt8] =
        switch request[0] {
        case 0x04: Self.octets(handle) + attribute.type
        case 0x10: Self.octets(handle) + Self.octets(attribute.end) + attribute.value
        default: Self.octets(handle) + value(of: handle)
        }
      size = size ?? item.count
      guard item.count == size, items.count + item.count <= 21 else { break }
      items += item
    }
    guard let size else { return notFound(request) }
    return answer([request[0] + 1, isInformation ? 1 : UInt8(size)] + items, to: request)
  }

  private func take(_ request: [UInt8]) -> [[UInt8]] {
    let (handle, value) = (Self.handle(request), Array(request[3...]))
    written.append((handle, value))
    let isConfiguration = attributes[Int(handle) - 1].type == Self.octets(0x2902)
    if let other = write(handle, value) { return other }
    if isConfiguration, handle > measurement, handle <= measurement + 2, value[0] & 3 != 0 {
      startMeasuring()
    }
    return request[0] == 0x12 ? answer([0x13], to: request) : []
  }
}
