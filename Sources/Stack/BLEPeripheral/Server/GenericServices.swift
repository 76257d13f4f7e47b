import BLEStack
import BLEWire

extension [GATTServiceDescription] {
  /// Prepends the two services that every device has, unless they are present. Core 5.4, Vol 3, Part C, 12;
  /// Part G, 7.
  ///
  /// The list is unchanged if it contains includes, because the indices of included services would change, or
  /// if the first service has a fixed handle.
  func withGenericServices(name: String, appearance: UInt16) -> [GATTServiceDescription] {
    guard !contains(where: { $0.uuid == .genericAccess || !$0.includes.isEmpty }), first?.handle == nil else {
      return self
    }
    var generic = Self.genericServices(name: name, appearance: appearance)
    if contains(where: { $0.uuid == .genericAttribute }) {
      generic.removeLast()
    } else {
      generic[generic.count - 1].characteristics = [
        GATTCharacteristicDescription(.serviceChanged, .indicate, value: [1, 0, 0xFF, 0xFF]),
        GATTCharacteristicDescription(.clientSupportedFeatures, [.read, .write], value: [0]),
        GATTCharacteristicDescription(.databaseHash, .read, value: []),
      ]
    }
    return generic + self
  }
}
