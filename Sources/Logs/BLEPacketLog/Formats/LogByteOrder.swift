import BLEWire

/// Byte order of the numbers in a file. In some formats it depends on the machine that wrote the file.
public enum LogByteOrder: Hashable, Sendable {
  case big, little
}

extension Span where Element == UInt8 {
  func u16(at offset: Int, _ order: LogByteOrder) -> UInt16 {
    order == .big ? u16BE(at: offset) : u16(at: offset)
  }

  func u32(at offset: Int, _ order: LogByteOrder) -> UInt32 {
    order == .big ? u32BE(at: offset) : u32(at: offset)
  }

  func u64(at offset: Int, _ order: LogByteOrder) -> UInt64 {
    order == .big ? u64BE(at: offset) : u64(at: offset)
  }
}
