/// Handle of an attribute on its server: 0x0001 … 0xFFFF. Core 5.4, Vol 3, Part F, 3.2.2.
public struct AttributeHandle: RawRepresentable, Hashable, Comparable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
  @inlinable public init(_ rawValue: UInt16) { self.rawValue = rawValue }

  /// 0x0000, reserved: "no handle" in an Error Response.
  public static let none = AttributeHandle(0x0000)
  public static let first = AttributeHandle(0x0001)
  public static let last = AttributeHandle(0xFFFF)

  /// The next handle; `nil` after 0xFFFF, the last possible handle.
  @inlinable public var next: AttributeHandle? {
    rawValue == 0xFFFF ? nil : AttributeHandle(rawValue + 1)
  }

  @inlinable public static func < (a: AttributeHandle, b: AttributeHandle) -> Bool {
    a.rawValue < b.rawValue
  }
}

/// The controller's handle for a link: 0x0000 … 0x0EFF. Core 5.4, Vol 4, Part E, 5.3.1.
public struct ConnectionHandle: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue & 0x0FFF }
  @inlinable public init(_ rawValue: UInt16) { self.init(rawValue: rawValue) }
}
