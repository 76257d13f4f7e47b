import BLEStack
import BLEWire

extension [GATTServiceDescription] {
  /// With the two services that every device has in front, where they are missing. Core 5.4, Vol 3, Part C, 12; Part G, 7.
  ///
  /// Where places of includes would move, or handles are given for the first service, the list is left as it is.
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
