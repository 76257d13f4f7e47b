extension Span where Element == UInt8 {
  /// Reads a little-endian number. Bluetooth is little-endian except for a few sensor payloads.
  @inlinable package func u16(at offset: Int) -> UInt16 {
    UInt16(self[offset]) | UInt16(self[offset + 1]) << 8
  }

  @inlinable package func u24(at offset: Int) -> UInt32 {
    UInt32(u16(at: offset)) | UInt32(self[offset + 2]) << 16
  }

  /// Reads a little-endian number. A single bounds check lets the compiler merge the bytes into one load.
  @inlinable package func u32(at offset: Int) -> UInt32 {
    let octets = extracting(offset...)
    precondition(octets.count >= 4, "the bytes are not there")
    return UInt32(octets[0]) | UInt32(octets[1]) << 8 | UInt32(octets[2]) << 16 | UInt32(octets[3]) << 24
  }

  @inlinable package func u64(at offset: Int) -> UInt64 {
    let octets = extracting(offset...)
    precondition(octets.count >= 8, "the bytes are not there")
    return UInt64(octets.u32(at: 0)) | UInt64(octets.u32(at: 4)) << 32
  }

  @inlinable package func u128(at offset: Int) -> UInt128 {
    UInt128(u64(at: offset)) | UInt128(u64(at: offset + 8)) << 64
  }

  @inlinable package func u16BE(at offset: Int) -> UInt16 {
    UInt16(self[offset]) << 8 | UInt16(self[offset + 1])
  }

  @inlinable package func u32BE(at offset: Int) -> UInt32 { u32(at: offset).byteSwapped }
  @inlinable package func u64BE(at offset: Int) -> UInt64 { u64(at: offset).byteSwapped }

  @inlinable package func handle(at offset: Int) -> AttributeHandle {
    AttributeHandle(u16(at: offset))
  }

  /// Reads six bytes in transmission order.
  @inlinable package func address(at offset: Int, type: AddressType) -> DeviceAddress {
    DeviceAddress(bits: UInt64(u32(at: offset)) | UInt64(u16(at: offset + 4)) << 32, type: type)
  }

  /// Reads a UUID of 2, 4 or 16 bytes. Returns `nil` for any other size.
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
  /// Checks the capacity once before several bytes are appended one by one. The optimiser merges the appends
  /// into one store if the function that contains them has no branches. Therefore the functions below are not
  /// inlined.
  @inlinable @inline(__always) func requireRoom(_ byteCount: Int) {
    precondition(capacity >= byteCount && count <= capacity &- byteCount, "no room for the bytes")
  }

  @inlinable @inline(never) package mutating func append(u16 value: UInt16) {
    requireRoom(2)
    append(UInt8(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 8))
  }

  @inlinable @inline(never) package mutating func append(u24 value: UInt32) {
    requireRoom(3)
    append(UInt8(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value >> 16))
  }

  @inlinable @inline(never) package mutating func append(u32 value: UInt32) {
    requireRoom(4)
    append(UInt8(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value >> 16))
    append(UInt8(truncatingIfNeeded: value >> 24))
  }

  @inlinable @inline(never) package mutating func append(u64 value: UInt64) {
    requireRoom(8)
    append(UInt8(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value >> 16))
    append(UInt8(truncatingIfNeeded: value >> 24))
    append(UInt8(truncatingIfNeeded: value >> 32))
    append(UInt8(truncatingIfNeeded: value >> 40))
    append(UInt8(truncatingIfNeeded: value >> 48))
    append(UInt8(truncatingIfNeeded: value >> 56))
  }

  @inlinable @inline(never) mutating func append(block: SIMD16<UInt8>) {
    requireRoom(16)
    for index in 0..<16 { append(block[index]) }
  }

  @inlinable @inline(never) mutating func append(block: SIMD8<UInt8>) {
    requireRoom(8)
    for index in 0..<8 { append(block[index]) }
  }

  @inlinable @inline(never) mutating func append(block: SIMD4<UInt8>) {
    requireRoom(4)
    for index in 0..<4 { append(block[index]) }
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
    append(u32: UInt32(truncatingIfNeeded: address.bits))
    append(u16: UInt16(truncatingIfNeeded: address.bits >> 32))
  }

  /// Appends the 16-bit form of the UUID if it exists, otherwise the 128-bit form. Every ATT PDU allows the
  /// 16-bit form.
  @inlinable package mutating func append(_ uuid: BluetoothUUID) {
    if let short = uuid.short { append(u16: short) } else { append(wide: uuid) }
  }

  @inlinable package mutating func append(wide uuid: BluetoothUUID) {
    append(u64: uuid.low)
    append(u64: uuid.high)
  }

  /// Appends bytes. Copies 16 bytes at a time, because the standard library has no safe bulk copy into an
  /// `OutputSpan`.
  @inlinable package mutating func append(_ bytes: Span<UInt8>) {
    var rest = bytes
    while rest.count >= 16 {
      var block = SIMD16<UInt8>()
      for index in 0..<16 { block[index] = rest[index] }
      append(block: block)
      rest = rest.extracting(droppingFirst: 16)
    }
    if rest.count >= 8 {
      var block = SIMD8<UInt8>()
      for index in 0..<8 { block[index] = rest[index] }
      append(block: block)
      rest = rest.extracting(droppingFirst: 8)
    }
    if rest.count >= 4 {
      var block = SIMD4<UInt8>()
      for index in 0..<4 { block[index] = rest[index] }
      append(block: block)
      rest = rest.extracting(droppingFirst: 4)
    }
    if rest.count > 0 { append(rest[0]) }
    if rest.count > 1 { append(rest[1]) }
    if rest.count > 2 { append(rest[2]) }
  }

  @inlinable package mutating func append(zeros count: Int) { append(repeating: 0, count: count) }
}

#if !NO_ALLOCATIONS
  extension Array where Element == UInt8 {
    /// Encodes a PDU of at most `capacity` bytes into a new array. For the control plane and tests.
    @inlinable public init<E: Error>(
      encoding capacity: Int, _ body: (inout OutputSpan<UInt8>) throws(E) -> Void
    ) throws(E) {
      try self.init(capacity: capacity, initializingWith: body)
    }

    @inlinable package mutating func append(copying octets: Span<UInt8>) {
      append(addingCapacity: octets.count) { $0.append(octets) }
    }
  }
#endif
