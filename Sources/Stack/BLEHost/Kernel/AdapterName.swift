public import BLELinux
public import BLEWire

/// Name of an adapter: its index or its address.
public enum AdapterName: Hashable, Sendable {
  /// Index, such as 0 for `hci0`. The kernel assigns a new index after each start, and each time the adapter
  /// is plugged in.
  case index(UInt16)
  /// The adapter's public address, which stays the same.
  case address(DeviceAddress)

  /// Parses `hci0` or `00:1A:7D:DA:71:13`. Returns `nil` for other text.
  public init?(_ text: String) {
    if let address = DeviceAddress(text) {
      self = .address(address)
    } else if text.hasPrefix("hci"), let index = UInt16(text.dropFirst(3)),
      text.dropFirst(3).first != "+"
    {
      self = .index(index)
    } else {
      return nil
    }
  }

  /// Returns whether this is a name of the adapter. The index is the only name of an adapter without an
  /// address.
  public func isName(of info: AdapterInfo) -> Bool {
    switch self {
    case .index(let index): info.index == index
    case .address(let address): info.address == address && address != .any
    }
  }

  /// Finds the adapter with this name, up or down.
  ///
  /// - Throws: `noAdapter`, or `severalAdapters` if several adapters have the address.
  public func find(among present: [AdapterInfo]) throws(HostError) -> AdapterInfo {
    let found = present.filter(isName)
    guard let first = found.first else { throw .noAdapter(description, present: present) }
    guard found.count == 1 else { throw .severalAdapters(first.address, found) }
    return first
  }
}

extension AdapterName: CustomStringConvertible {
  public var description: String {
    switch self {
    case .index(let index): "hci\(index)"
    case .address(let address): address.description
    }
  }
}
