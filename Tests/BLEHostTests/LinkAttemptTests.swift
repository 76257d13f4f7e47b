import BLEStack
import BLEWire
import Testing

@testable import BLEHost

/// Assignment of a new link to a connection request.
@Suite struct LinkAttemptTests {
  private static let now = MonotonicTime(nanoseconds: 0)

  private static func wish(_ number: UInt64) -> LinkWish {
    LinkWish(address(number), LinkRequest(), nil, .seconds(1), from: now)
  }

  private static func address(_ number: UInt64) -> DeviceAddress {
    DeviceAddress(bits: 0x70CB_0D00_0000 + number, type: .public)
  }

  private static func wishes(_ all: [LinkWish]) -> LinkWishes {
    var wishes = LinkWishes()
    wishes.waiting = all
    wishes.attempt = LinkAttempt(all, isPartial: false)
    return wishes
  }

  /// The controller's list still has a device that is no longer wanted: its link is given to no request,
  /// although one is left.
  @Test func aListedLinkIsOnlyForWhoWantsThatDevice() {
    let (first, second) = (Self.wish(1), Self.wish(2))
    var wishes = Self.wishes([first, second])
    wishes.attempt?.wishes.removeAll { $0 === first }
    #expect(wishes.take(Self.address(1)) == nil)
    #expect(wishes.take(Self.address(2)) === second)
  }

  /// A directed attempt may connect to a device under another address.
  @Test func aNamedLinkIsForItsWishWhateverTheAddress() {
    let wish = Self.wish(1)
    var wishes = Self.wishes([wish])
    #expect(wishes.take(Self.address(7)) === wish)
    #expect(wishes.take(Self.address(1)) == nil)
  }
}
