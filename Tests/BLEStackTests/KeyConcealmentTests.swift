import BLEStack
import BLEWire
import TestKit
import Testing

/// Layouts from Core 5.4, Vol 4, Part E, 7.8.22–25 and 7.8.38, Vol 3, Part H, 3.6.
@Suite struct KeyConcealmentTests {
  private static let key = "bf01fb9d4ef3bc36d874f5394138684c"
  private static let zeros = String(repeating: "0", count: 32)

  /// Packets that contain a key.
  static let packets = [
    "0119201c 4000 0100000000000000 0200 KEY", "011a2012 4000 KEY",
    "01172020 KEY 01010101010101010101010101010101", "01272027 00 b2a1000dcb70 KEY KEY",
    "02 4000 1500 1100 0600 06 KEY", "02 4020 1500 1100 0600 08 KEY", "02 4000 1500 1100 0600 0a KEY",
  ]

  @Test(arguments: packets) func hidesKeys(_ packet: String) {
    let octets = octetsOf(packet.replacing("KEY", with: Self.key))
    let concealed = KeyConcealment.concealed(octets.span)
    #expect(concealed == octetsOf(packet.replacing("KEY", with: Self.zeros)))
  }

  /// Without keys: Identity Address, Pairing Random, an ATT notification, the middle of a frame, another
  /// command, an event.
  @Test(arguments: [
    "0240000c00080006000900b2a1000dcb70", "024000150011000600047f42c02f1d0737fc045b059aed67a568",
    "024000150011000400061b42c02f1d0737fc045b059aed67a568",
    "024010150011000600067f42c02f1d0737fc045b059aed67a568",
    "0113200e40001400280000 00f40100000000", "043e0d05 4000 0000000000000000 0000", "02", "",
  ])
  func leavesOthersAlone(_ packet: String) {
    let octets = octetsOf(packet)
    #expect(KeyConcealment.concealed(octets.span) == nil)
  }

  /// In a truncated packet, the part of the key that is there is hidden.
  @Test func hidesWhatIsThereOfAKey() {
    let octets = octetsOf("0119201c 4000 0100000000000000 0200 ffffff")
    #expect(KeyConcealment.concealed(octets.span) == octetsOf("0119201c 4000 0100000000000000 0200 000000"))
  }
}
