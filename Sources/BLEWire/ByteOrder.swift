public import BLECore

extension Span where Element == UInt8 {
  /// The octets as a little-endian number. Bluetooth is little-endian but for a few sensor payloads.
  @inlinable package func u16(at offset: Int) -> UInt16 {
    UInt16(self[offset]) | UInt16(self[offset + 1]) << 8
  }

  @inlinable package func u24(at offset: Int) -> UInt32 {
    UInt32(u16(at: offset)) | UInt32(self[offset + 2]) << 16
  }

  @inlinable package func u32(at offset: Int) -> UInt32 {
    UInt32(u16(at: offset)) | UInt32(u16(at: offset + 2)) << 16
  }

  @inlinable package func u64(at offset: Int) -> UInt64 {
    UInt64(u32(at: offset)) | UInt64(u32(at: offset + 4)) << 32
  }

  @inlinable package func u128(at offset: Int) -> UInt128 {
    UInt128(u64(at: offset)) | UInt128(u64(at: offset + 8)) << 64
  }

  @inlinable package func u16BE(at offset: Int) -> UInt16 {
    UInt16(self[offset]) << 8 | UInt16(self[offset + 1])
  }

  @inlinable package func u32BE(at offset: Int) -> UInt32 {
    UInt32(u16BE(at: offset)) << 16 | UInt32(u16BE(at: offset + 2))
  }

  @inlinable package func u64BE(at offset: Int) -> UInt64 {
    UInt64(u32BE(at: offset)) << 32 | UInt64(u32BE(at: offset + 4))
  }

  @inlinable package func handle(at offset: Int) -> AttributeHandle {
    AttributeHandle(u16(at: offset))
  }

  /// Six octets in transmission order.
  @inlinable package func address(at offset: Int, type: AddressType) -> DeviceAddress {
    DeviceAddress(bits: UInt64(u32(at: offset)) | UInt64(u16(at: offset + 4)) << 32, type: type)
  }

  /// A UUID of 2, 4 or 16 octets, or `nil` for any other size.
  @inlinable package func uuid(at offset: Int, byteCount: Int) -> BluetoothUUID? {
    switch byteCount {
    case 2: BluetoothUUID(u16(at: offset))
    case 4: BluetoothUUID(short32: u32(at: offset))
    case 16: BluetoothUUID(high: u64(at: offset + 8), low: u64(at: offset))
    default: nil
    }
  }

  @inlinable package func require(_ byteCount: Int, _ layer: WireError.Layer) throws(WireError) {
    guard count >= byteCount else {
      throw .truncated(layer, needed: byteCount, available: count)
    }
  }

}

extension OutputSpan where Element == UInt8 {
  @inlinable package mutating func append(u16 value: UInt16) {
    append(UInt8(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 8))
  }

  @inlinable package mutating func append(u24 value: UInt32) {
    append(u16: UInt16(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 16))
  }

  @inlinable package mutating func append(u32 value: UInt32) {
    append(u16: UInt16(truncatingIfNeeded: value))
    append(u16: UInt16(truncatingIfNeeded: value >> 16))
  }

  @inlinable package mutating func append(u64 value: UInt64) {
    append(u32: UInt32(truncatingIfNeeded: value))
    append(u32: UInt32(truncatingIfNeeded: value >> 32))
  }

  @inlinable package mutating func append(u128 value: UInt128) {
    append(u64: UInt64(truncatingIfNeeded: value))
    append(u64: UInt64(truncatingIfNeeded: value >> 64))
  }

  @inlinable package mutating func append(u16BE value: UInt16) { append(u16: value.byteSwapped) }
  @inlinable package mutating func append(u32BE value: UInt32) { append(u32: value.byteSwapped) }
  @inlinable package mutating func append(u64BE value: UInt64) { append(u64: value.byteSwapped) }

  @inlinable package mutating func append(_ handle: AttributeHandle) {
    append(u16: handle.rawValue)
  }

  @inlinable package mutating func append(_ address: DeviceAddress) {
    for index in 0..<6 { append(address.octet(index)) }
  }

  /// The short form where there is one, as every ATT PDU allows.
  @inlinable package mutating func append(_ uuid: BluetoothUUID) {
    if let short = uuid.short { append(u16: short) } else { append(wide: uuid) }
  }

  @inlinable package mutating func append(wide uuid: BluetoothUUID) {
    append(u64: uuid.low)
    append(u64: uuid.high)
  }

  @inlinable package mutating func append(_ bytes: Span<UInt8>) {
    for index in bytes.indices { append(bytes[index]) }
  }

  @inlinable package mutating func append(zeros count: Int) {
    for _ in 0..<count { append(0) }
  }
}

#if !hasFeature(Embedded)
  extension Array where Element == UInt8 {
    /// Encodes a PDU of at most `capacity` octets into a new array. For the control plane and tests.
    @inlinable public init<E: Error>(
      encoding capacity: Int, _ body: (inout OutputSpan<UInt8>) throws(E) -> Void
    ) throws(E) {
      try self.init(capacity: capacity, initializingWith: body)
    }
  }
#endif
