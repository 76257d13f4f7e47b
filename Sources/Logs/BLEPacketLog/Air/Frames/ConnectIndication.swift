import BLEWire

/// Start of a connection on the air: CONNECT_IND or AUX_CONNECT_REQ. Core 5.4, Vol 6, Part B, 2.3.3.1.
struct ConnectIndication: Hashable {
  static let byteCount = 34

  let central: DeviceAddress
  let peripheral: DeviceAddress
  let accessAddress: UInt32
  let crcStart: UInt32
  /// Window offset in units of 1.25 ms.
  let windowOffset: UInt16
  let parameters: LinkParameters
  /// One bit for each of the channels 0 … 36.
  let channelMap: UInt64

  /// - Parameter pdu: header and payload.
  init?(_ pdu: Span<UInt8>) {
    guard pdu.count >= 2 + Self.byteCount else { return nil }
    let payload = pdu.extracting(2...)
    central = payload.address(at: 0, type: pdu[0] & 0x40 == 0 ? .public : .random)
    peripheral = payload.address(at: 6, type: pdu[0] & 0x80 == 0 ? .public : .random)
    accessAddress = payload.u32(at: 12)
    crcStart = payload.u24(at: 16)
    windowOffset = payload.u16(at: 20)
    parameters = LinkParameters(
      interval: payload.u16(at: 22), latency: payload.u16(at: 24), supervisionTimeout: payload.u16(at: 26))
    channelMap = payload.channelMap(at: 28)
  }
}

extension Span where Element == UInt8 {
  /// Reads a channel map: five bytes, of which 37 bits are used.
  func channelMap(at offset: Int) -> UInt64 {
    (UInt64(u32(at: offset)) | UInt64(self[offset + 4]) << 32) & AirConnection.allChannels
  }
}
